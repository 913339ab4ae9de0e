"""What every generated kernel calls: sorted buffers per leaf and key, the key table, waiting answers, exact arithmetic.

The same source runs as plain Python and under Numba: `library(True)` is all modules of this package as one, compiled.
Compiled functions take raw pointers (an array as argument would be counted on every call), plain ones memoryviews of
the same memory, so that they compute with Python's own integers. `words` names what is kept where.
"""

from tocsin.engine.runtime.arithmetic import *  # noqa: F403
from tocsin.engine.runtime.buffers import *  # noqa: F403
from tocsin.engine.runtime.entries import *  # noqa: F403
from tocsin.engine.runtime.held import *  # noqa: F403
from tocsin.engine.runtime.keys import *  # noqa: F403
from tocsin.engine.runtime.library import ENTRIES as ENTRIES
from tocsin.engine.runtime.library import FUNCTIONS as FUNCTIONS
from tocsin.engine.runtime.library import code_folder as code_folder
from tocsin.engine.runtime.library import compile_library as compile_library
from tocsin.engine.runtime.library import declare as declare
from tocsin.engine.runtime.library import library as library
from tocsin.engine.runtime.library import source as source
from tocsin.engine.runtime.plain import *  # noqa: F403
from tocsin.engine.runtime.purge import *  # noqa: F403
from tocsin.engine.runtime.purge_table import *  # noqa: F403
from tocsin.engine.runtime.storing import *  # noqa: F403
from tocsin.engine.runtime.waiting import *  # noqa: F403
from tocsin.engine.runtime.words import *  # noqa: F403
