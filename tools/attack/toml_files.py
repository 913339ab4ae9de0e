"""Pipeline files: garbled TOML, values of other kinds, queries in files that are none."""

from __future__ import annotations

import tempfile
from pathlib import Path
from random import Random

from tocsin.errors import TocsinError
from tocsin.jobs.config import read_pipeline
from tools.attack.core import Input, Surface, WrongAnswerError
from tools.attack.mutate import garbled

EXAMPLES = Path(__file__).parent.parent.parent / "examples" / "pipelines"
SECRET = "password = hunter2hunter2"  # noqa: S105 - a line of a file that is no query
VALUES = (
    "1", "-1", "1.5", "true", '""', '"\\u0000"', "[]", "[[]]", "{}", "{ a = { b = 1 } }", "1979-05-27", "inf", "nan",
    '"${HOME}"', '"${NOT_SET_AT_ALL}"', '"secret.txt"', '"/dev/null"', '"."', '"../x"', '"\\u0000/x"',
    '"' + "x" * 5000 + '"',
    "9" * 30, "[" * 200 + "]" * 200, '"kafka"', '"slack(10 min)"', '"slack(-1)"', '"EVENT SEQ(A a, B b) WITHIN 5"',
    '"30 s"', '["match", "timeout", "count"]', '["nothing"]', '"CreateCE X Event A"',
    '"INTERVALS v FROM A SESSION GAP 3"',
    '"CONSTRAINT c AS A B; EVENT SEQ(A a, B b) UNDER c"', "{ H = 10 }", '{ H = "10 min" }',
)  # fmt: skip
WORDS = (
    "source query order sink run spark name format path schema time type end eid rename columns where drop batch text"
    " file strategy idle sources kinds options checkpoint buckets trigger end_of_stream unknown bad_rows all jit"
    " time_unit master timers clock late_within longest carry_over history subscribe value_format functions metrics"
    " answers constraint memory_limit"
).split()


def make(random: Random) -> Input:
    """Draw a pipeline file: an example with other values, or garbled."""
    text = (EXAMPLES / random.choice(("theft.toml", "kafka.toml"))).read_text(encoding="utf-8")
    lines = text.splitlines()
    for _ in range(random.randint(0, 3)):
        at = random.randrange(len(lines) + 1)
        key = random.choice(WORDS)
        match random.randrange(4):
            case 0 if at < len(lines) and "=" in lines[at]:
                lines[at] = f"{lines[at].partition('=')[0]}= {random.choice(VALUES)}"
            case 1:
                lines.insert(at, f"{key} = {random.choice(VALUES)}")
            case 2:
                lines.insert(at, random.choice((f"[{key}]", f"[[{key}]]", f"[{key}.x]", f"[source.readers.{key}]")))
            case _:
                del lines[at : at + 1]
    text = "\n".join(lines)
    return {"text": garbled(random, text, WORDS) if random.random() < 0.5 else text}


def judge(given: Input) -> None:
    """Read the file and its queries; errors never show what stands in a file that is no query."""
    with tempfile.TemporaryDirectory() as folder:
        here = Path(folder)
        (here / "secret.txt").write_text(SECRET, encoding="utf-8")
        (here / "theft.tocsin").write_text((EXAMPLES / "theft.tocsin").read_text(encoding="utf-8"), encoding="utf-8")
        path = here / "p.toml"
        path.write_bytes(given["text"].encode("utf-8", "surrogatepass"))
        try:
            pipeline = read_pipeline(path)
            pipeline.query()
            pipeline.as_history()
        except TocsinError as error:
            if "hunter2" in str(error):
                raise WrongAnswerError("an error shows a line of a file: that is no query") from None
            raise


SURFACE = Surface("toml_files", make, judge, share=2)
