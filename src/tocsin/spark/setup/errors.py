"""Turn Spark's errors into ours: find our own message in the stack trace, and give common faults a remedy."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from tocsin.errors import InputError, LimitError, StateError, TocsinError

OURS = re.compile(r"tocsin\.(?:errors|[\w.]+)\.(\w*Error): error: (.*)")
PYTHON = re.compile(r"^(?:[\w.]+\.)?([A-Z]\w*(?:Error|Exception|Warning|Interrupt|Exit)): (.*)$", re.MULTILINE)
MODULE = re.compile(r"ModuleNotFoundError: No module named '([^']+)'")
CONDITION = re.compile(r"\[([A-Z][A-Z0-9_]+(?:\.[A-Z0-9_]+)*)\] ?(.*)")
KAFKA = 'add to the file: [spark] "spark.jars.packages" = "org.apache.spark:spark-sql-kafka-0-10_2.13:{version}"'
SHIPPING = (
    "install tocsin where they run (a cluster library, the image), or send an environment that has it: "
    "spark.addArtifacts('environment.tar.gz#environment', archive=True) and "
    "spark.conf.set('spark.sql.execution.pyspark.python', 'environment/bin/python'); docs/spark.md"
)
GONE = ("StatusCode.UNAVAILABLE", "failed to connect to all addresses", "Socket closed", "Connection reset")
NO_WORKER = ("Python worker failed to connect back", "waiting for the Python worker to connect back")
ERROR_CLASSES: Mapping[str, type[TocsinError]] = {each.__name__: each for each in (InputError, LimitError, StateError)}
MOST_CHARACTERS = 400  # characters of a foreign message


def explained(error: BaseException) -> TocsinError | None:
    """Translate an error of Spark; None if it has nothing to do with Spark."""
    if isinstance(error, TocsinError):
        return error
    if not _is_spark(error):
        return None
    text = _text(error)
    return _ours(text) or _known(error, text) or _foreign(text)


def _is_spark(error: BaseException) -> bool:
    return any(each.__module__.split(".")[0] in ("pyspark", "py4j", "grpc") for each in type(error).__mro__)


def _text(error: BaseException) -> str:
    """Return the whole text of an error, with the causes that the JVM knows."""
    parts = [str(error)]
    java = getattr(error, "java_exception", None)
    if java is not None:
        parts.append(_asked(java.toString))
    return "\n".join(parts)


def _asked(call: Callable[[], Any]) -> str:
    """Return the answer of a call into the JVM as text, or the text of the error if it fails."""
    try:
        return str(call())
    except Exception as error:  # noqa: BLE001 - whatever goes wrong here must not hide the first trouble
        return str(error)


def _ours(text: str) -> TocsinError | None:
    """Rebuild the TocsinError that our own code raised in a worker; None if there is none."""
    every = list(OURS.finditer(text))
    if not every:
        return None
    found = every[-1]  # the one that came through
    parts: dict[str, str] = {}
    for line in text[found.end() :].splitlines()[1:]:
        said = re.match(r"\s+(reason|hint): (.*)", line)
        if said is None:
            break
        parts[said[1]] = said[2].rstrip()
    kind = ERROR_CLASSES.get(found[1], TocsinError)
    return kind(found[2].rstrip(), detail=parts.get("reason"), hint=parts.get("hint"))


@contextmanager
def server_told() -> Iterator[None]:
    """Turn the loss of a server of Spark Connect, or of its Python, into an error of ours; leave others as they are."""
    try:
        yield
    except Exception as error:
        if isinstance(error, TocsinError) or not _is_spark(error):
            raise
        text = _text(error)
        if any(sign in text for sign in GONE):
            raise _silent(text) from None
        if _condition(error, text)[0].startswith("INVALID_HANDLE"):
            raise _forgotten({}, text) from None
        if any(sign in text for sign in NO_WORKER):
            raise _no_worker() from None
        raise


@contextmanager
def noted() -> Iterator[list[str]]:
    """Collect the warnings given inside the block, as texts."""
    notes: list[str] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            yield notes
        finally:
            told = [str(each.message) for each in caught if issubclass(each.category, UserWarning)]
            notes += dict.fromkeys(told)


# --- what Spark itself says ----------------------------------------------------------------------------------------


def _known(error: BaseException, text: str) -> TocsinError | None:
    """Recognise common faults and name the remedy of each."""
    if any(sign in text for sign in GONE):
        return _silent(text)
    if any(sign in text for sign in NO_WORKER):
        return _no_worker()
    missing = MODULE.search(text)
    if missing is not None and missing[1].split(".")[0] == "tocsin":
        return TocsinError("the executors have no Tocsin", hint=SHIPPING)
    if missing is not None:
        return TocsinError(
            f"the executors have no Python module {missing[1]!r}",
            detail="what a query calls must be importable where it runs",
            hint=f"install {missing[1]!r} there, or ship it: spark.submit.pyFiles, or spark-submit --py-files",
        )
    if "OutOfMemoryError" in text:
        return TocsinError(
            "Spark ran out of memory",
            hint='give it more: "spark.driver.memory" = "4g" (local), "spark.executor.memory" = "4g" (on a cluster)',
        )
    condition, given = _condition(error, text)
    told = _teller(condition)
    return None if told is None else told(given, text)


def _condition(error: BaseException, text: str) -> tuple[str, Mapping[str, str]]:
    """Spark's name of what is wrong, and its parameters."""
    asked = getattr(error, "getCondition", None) or getattr(error, "getErrorClass", None)
    name = asked() if asked is not None else None
    given: Mapping[str, str] | None = getattr(error, "getMessageParameters", dict)() if name else None
    known = [found[1] for found in CONDITION.finditer(text) if found[1] not in ("STREAM_FAILED", "FAILED_EXECUTE_UDF")]
    if known and (name in (None, "STREAM_FAILED") or not _teller(name)):  # a worker's own error lies in Spark's
        return next(filter(_teller, known), name or known[0]), {}
    return name or "", given or {}


def _teller(condition: str) -> Callable[[Mapping[str, str], str], TocsinError] | None:
    """What makes our error of a condition, or of the one that it belongs to."""
    return TOLD.get(condition.partition(".")[0])


def _no_format(given: Mapping[str, str], text: str) -> TocsinError:
    name = given.get("provider") or _quoted(text, r"data source: (\S+?)[.\s]")
    hint = 'add the package that brings it: [spark] "spark.jars.packages" = "group:artifact:version"'
    if name == "kafka":
        import pyspark

        hint = KAFKA.format(version=pyspark.__version__)
    return TocsinError(f"Spark has no data source {name!r}", hint=hint)


def _no_path(given: Mapping[str, str], text: str) -> TocsinError:
    path = given.get("path") or _quoted(text, r"Path does not exist: (\S+)")
    return TocsinError(f"there is nothing at {path.removeprefix('file:')}", hint="check the path, or create the folder")


def _no_column(given: Mapping[str, str], text: str) -> TocsinError:
    name = (given.get("objectName") or _quoted(text, r"with name (`[^ ]+`)")).strip("`")
    near = given.get("proposal")
    return TocsinError(
        f"there is no column {name!r}", hint=f"perhaps one of: {near.replace('`', '')}" if near else None
    )


def _no_sql(given: Mapping[str, str], text: str) -> TocsinError:
    found = re.search(r"\[PARSE_SYNTAX_ERROR\] (.*?)(?: SQLSTATE|\n|$)", text)
    return TocsinError("this is no SQL expression", detail=found[1] if found else given.get("error"))


def _other_python(given: Mapping[str, str], text: str) -> TocsinError:
    import sys

    there = given.get("worker_version") or _quoted(text, r"different version: ([\d.]+) than")
    here = f"{sys.version_info.major}.{sys.version_info.minor}"
    return TocsinError(
        f"the workers run Python {there or 'of another version'}, and this program Python {here}",
        detail="functions that one version of Python sends mean nothing to another",
        hint="use the same minor version on both sides: PYSPARK_PYTHON, or spark.sql.execution.pyspark.python",
    )


def _silent(text: str) -> TocsinError:
    return TocsinError(
        "the server of Spark Connect does not answer",
        detail=_quoted(text, r'details = "(.+?)"') or None,
        hint="see that it runs and can be reached, then make a new session; a stream goes on from its checkpoint",
    )


def _no_worker() -> TocsinError:
    return TocsinError(
        "a Python worker of Spark did not start in time",
        detail="Spark waits ten seconds for it: the machine has too much to do, or that Python cannot start",
        hint="try again, a stream goes on from its checkpoint; which Python it is, PYSPARK_PYTHON says there",
    )


def _forgotten(given: Mapping[str, str], text: str) -> TocsinError:
    del given, text
    return TocsinError(
        "the server of Spark Connect does not know this session any more",
        detail="it was restarted, or the session was closed there",
        hint="make a new session; a stream goes on from its checkpoint",
    )


def _malformed(given: Mapping[str, str], text: str) -> TocsinError:
    row = given.get("badRecord") or _quoted(text, r"Malformed records are detected in record parsing: (.+?)\.?\n")
    return TocsinError(
        "a row of the input cannot be read",
        detail=f"it is {row}" if row else None,
        hint='correct it or the schema, or keep such rows aside: [run] bad_rows = "keep"',
    )


TOLD: Mapping[str, Callable[[Mapping[str, str], str], TocsinError]] = {
    "DATA_SOURCE_NOT_FOUND": _no_format,
    "PATH_NOT_FOUND": _no_path,
    "UNRESOLVED_COLUMN": _no_column,
    "PARSE_SYNTAX_ERROR": _no_sql,
    "MALFORMED_RECORD_IN_PARSING": _malformed,
    "FAILED_READ_FILE": lambda given, text: _malformed(given, text) if "alformed" in text else _foreign(text),
    "PYTHON_VERSION_MISMATCH": _other_python,
    "INVALID_HANDLE": _forgotten,
    "UNABLE_TO_INFER_SCHEMA": lambda _, __: TocsinError(
        "the columns cannot be told from the files", hint='say them: schema = "type STRING, ..."'
    ),
}


def _quoted(text: str, pattern: str) -> str:
    found = re.search(pattern, text)
    return found[1] if found else ""


def _foreign(text: str) -> TocsinError:
    """Report any other failure: the last Python error if there is one, else the first line of Spark's message."""
    python = PYTHON.findall(text)
    if python and "Traceback (most recent call last)" in text:
        kind, message = python[-1]
        return TocsinError(
            f"the work failed in Python: {kind}: {message}"[:MOST_CHARACTERS], hint="--verbose shows where"
        )
    lines = [line.strip() for line in text.splitlines() if line.strip() and not line.lstrip().startswith("at ")]
    first = re.sub(r"^An error occurred while calling \S+\s*:?\s*", "", lines[0] if lines else "an unknown error")
    if not first and len(lines) > 1:
        first = lines[1]
    caused = [line.removeprefix("Caused by: ") for line in lines if line.startswith("Caused by: ")]
    detail = caused[-1][:MOST_CHARACTERS] if caused else None
    return TocsinError(
        f"Spark failed: {first}"[:MOST_CHARACTERS], detail=detail, hint="--verbose shows all that Spark said"
    )
