"""Tables of a TOML file, read key by key: everything that is wrong is collected, with file, table and key."""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from tocsin.errors import InputError, Problem

VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")


class PipelineError(InputError):
    """A pipeline file is wrong; carries everything that was found."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(problems)
        first = self.problems[0]
        super().__init__(first.message, detail=first.detail, hint=first.hint)

    def __str__(self) -> str:
        return "\n\n".join(str(InputError(p.message, detail=p.detail, hint=p.hint)) for p in self.problems)


class File:
    """A TOML file and what is wrong with it so far."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.problems: list[Problem] = []

    def read(self) -> Table:
        """Its outermost table."""
        if not self.path.is_file():
            raise InputError(f"there is no pipeline file {str(self.path)!r}", hint=_toml_nearby(self.path))
        try:
            values = tomllib.loads(self.path.read_text(encoding="utf-8-sig"))
        except UnicodeDecodeError:
            raise InputError(f"{self.path} is not valid UTF-8") from None
        except (tomllib.TOMLDecodeError, RecursionError) as problem:
            hint = 'texts are quoted: key = "value"; tables look like [source.name]'
            raise InputError(f"{self.path} is not valid TOML", detail=str(problem), hint=hint) from None
        return Table(self, "", values)

    def wrong(self, place: str, message: str, *, detail: str | None = None, hint: str | None = None) -> None:
        where = f"{self.path.name}, {place}" if place else self.path.name
        self.problems.append(Problem(f"{where}: {message}", None, detail, hint))

    def raise_any(self) -> None:
        if self.problems:
            raise PipelineError(self.problems)


def _toml_nearby(path: Path) -> str | None:
    try:
        known = sorted(each.name for each in path.parent.glob("*.toml"))
    except OSError:
        return None
    return f"there are: {', '.join(known[:5])}" if known else None


class Table:
    """One table: keys are asked for by what they should hold, and `done` reports those that nobody asked for."""

    def __init__(self, file: File, title: str, values: Mapping[str, Any]) -> None:
        self.file, self.title, self.values = file, title, values
        self.asked: list[str] = []

    def place(self, key: str = "") -> str:
        return ", ".join(part for part in (self.title, f"key {key!r}" if key else "") if part)

    def wrong(self, key: str, message: str, *, detail: str | None = None, hint: str | None = None) -> None:
        self.file.wrong(self.place(key), message, detail=detail, hint=hint)

    def _get(self, key: str, kind: type | tuple[type, ...], wanted: str, example: str) -> Any:
        self.asked.append(key)
        value = self.values.get(key)
        if value is None:
            return None
        if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
            self.wrong(key, f"must be {wanted}, not {_shown(value)}", hint=f"for example: {key} = {example}")
            return None
        return value

    def text(self, key: str, example: str = '"..."') -> str | None:
        found: str | None = self._get(key, str, "a text", example)
        if found is not None and "\0" in found:
            self.wrong(key, "holds a NUL character", hint="write the text without \\u0000")
            return None
        if found is not None and not found.strip():
            self.wrong(key, "is empty", hint="say something, or leave the key out")
            return None
        return found

    def whole(self, key: str, *, least: int, example: str) -> int | None:
        found: int | None = self._get(key, int, "a whole number", example)
        if found is not None and found < least:
            self.wrong(key, f"is {found}, and must be at least {least}")
            return None
        return found

    def flag(self, key: str, default: bool) -> bool:
        found: bool | None = self._get(key, bool, "true or false", "true")
        return default if found is None else found

    def choice(self, key: str, known: Iterable[str], default: str) -> str:
        found, names = self.text(key), list(known)
        if found is None or found in names:
            return default if found is None else found
        self.wrong(key, f"{found!r} is not known", hint=meant(found, names) or f"use {' or '.join(map(repr, names))}")
        return default

    def texts(self, key: str) -> tuple[str, ...] | None:
        """A list of texts; one alone needs no brackets."""
        found = self._get(key, (list, str), "a list of texts", '["a", "b"]')
        if found is None:
            return None
        several = [found] if isinstance(found, str) else found
        if not all(isinstance(each, str) for each in several):
            self.wrong(key, "must hold texts only", hint=f'for example: {key} = ["a", "b"]')
            return None
        return tuple(several)

    def mapping(self, key: str, example: str) -> dict[str, str]:
        """Names and texts: SQL expressions, or names of columns."""
        found = self._get(key, dict, "a table of texts", example) or {}
        wrong = [name for name, value in found.items() if not isinstance(value, str) or not value.strip()]
        for name in wrong:
            self.wrong(f"{key}.{name}", "must be a text", hint=f"for example: {key} = {example}")
        return {name: value for name, value in found.items() if name not in wrong}

    def options(self, key: str) -> dict[str, str]:
        """Options as Spark takes them: texts under dotted names. ${NAME} is taken from the environment."""
        return self.flat(key, self._get(key, dict, "a table", "{ header = true }") or {})

    def flat(self, key: str, values: Mapping[str, Any]) -> dict[str, str]:
        found: dict[str, str] = {}
        for name, value in values.items():
            if isinstance(value, dict):
                inner = self.flat(f"{key}.{name}" if key else name, value)
                found.update({f"{name}.{each}": text for each, text in inner.items()})
            elif isinstance(value, (str, int, float)):
                text = str(value).lower() if isinstance(value, bool) else str(value)
                found[name] = self.filled(f"{key}.{name}" if key else name, text)
            else:
                self.wrong(f"{key}.{name}", f"must be a text, a number, true or false, not {_shown(value)}")
        return found

    def filled(self, key: str, text: str) -> str:
        """The text with variables of the environment in it."""
        for name in VARIABLE.findall(text):
            if name not in os.environ:
                self.wrong(key, f"the environment has no variable {name}", hint=f"set it: export {name}=...")
        return VARIABLE.sub(lambda found: os.environ.get(found[1], ""), text)

    def table(self, key: str) -> Table | None:
        found = self._get(key, dict, "a table", "{ }")
        return (
            None
            if found is None
            else Table(self.file, f"{self.title[:-1]}.{key}]" if self.title else f"[{key}]", found)
        )

    def tables(self, key: str, example: str) -> dict[str, Table]:
        """The tables [key.NAME]."""
        self.asked.append(key)
        found = self.values.get(key, {})
        if not isinstance(found, dict) or not all(isinstance(each, dict) for each in found.values()):
            self.file.wrong(f"[{key}]", "needs a name for each of its tables", hint=f"write [{key}.{example}]")
            return {}
        return {name: Table(self.file, f"[{key}.{name}]", each) for name, each in found.items()}

    def listed(self, key: str) -> list[Table]:
        """The tables [[key]]."""
        self.asked.append(key)
        found = self.values.get(key, [])
        several = [found] if isinstance(found, dict) else found
        if not isinstance(several, list) or not all(isinstance(each, dict) for each in several):
            self.file.wrong(f"[[{key}]]", "must be a list of tables", hint=f"begin each with a line [[{key}]]")
            return []
        return [Table(self.file, f"[[{key}]] {number}", each) for number, each in enumerate(several, 1)]

    def done(self) -> None:
        """Report the keys that nobody asked for."""
        for key in self.values:
            if key not in self.asked:
                known = f"known here: {', '.join(self.asked)}"
                self.wrong(key, "there is no such key", detail=known, hint=meant(key, self.asked))


def meant(name: str, known: Iterable[str]) -> str | None:
    """The known name that was probably meant.

    >>> meant("fromat", ["format", "path"])
    "did you mean 'format'?"
    """
    by_lower = {word.lower(): word for word in known}
    close = get_close_matches(name.lower(), by_lower, n=1, cutoff=0.6)
    return f"did you mean {by_lower[close[0]]!r}?" if close else None


def _shown(value: object) -> str:
    match value:
        case bool():
            return str(value).lower()
        case dict():
            return "a table"
        case list():
            return "a list"
    return repr(value)
