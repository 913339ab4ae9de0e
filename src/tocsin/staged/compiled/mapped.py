"""Arrays of words in a file, for what does not fit below a memory limit: the system reads and writes its pages."""

from __future__ import annotations

import mmap
import os
import tempfile
import weakref

import numpy as np

from tocsin.items import Ints


class MappedWords:
    """An array that grows in a file without a name, which is gone with the process, however that ends."""

    def __init__(self, words: Ints, size: int) -> None:
        self._file = tempfile.TemporaryFile(prefix="tocsin-")  # noqa: SIM115 - it is closed with this object
        weakref.finalize(self, self._file.close)
        self._map: mmap.mmap | None = None
        self.words = words
        self.grow(size)[: len(words)] = words

    def grow(self, size: int) -> Ints:
        """Make room for more words. A full disk is said here, and not when a page is written."""
        try:
            if hasattr(os, "posix_fallocate"):
                os.posix_fallocate(self._file.fileno(), 0, 8 * size)
            else:
                self._file.truncate(8 * size)
            self._map = mmap.mmap(self._file.fileno(), 8 * size)
        except OSError as error:
            raise MemoryError(f"the folder for temporary files has no room for {8 * size:,} bytes: {error}") from error
        self.words = np.frombuffer(self._map, np.int64)
        return self.words

    def let_go(self) -> None:
        """Give pages back; what was written stays in the file."""
        if self._map is not None and hasattr(mmap, "MADV_DONTNEED"):
            self._map.madvise(mmap.MADV_DONTNEED)
