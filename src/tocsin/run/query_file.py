"""Queries in files: read one, and tell a file name from the text of a query."""

from __future__ import annotations

import re
from pathlib import Path

from tocsin.errors import InputError

EXAMPLE = "write for example: EVENT SEQ(A a, B b) WITHIN 10"
ENDINGS = (".tocsin", ".query", ".txt", ".sql", ".case", ".toml")


def read_query_file(path: Path) -> str:
    """The text of a query file."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        raise InputError(f"the query file {path} is not valid UTF-8") from None
    except FileNotFoundError:
        raise InputError(f"there is no query file {str(path)!r}") from None
    except (OSError, ValueError) as error:
        raise InputError(f"cannot read the query file {str(path)!r}", detail=str(error)) from None
    if not text.strip():
        raise InputError(f"the query file {path} is empty", hint=EXAMPLE)
    return text


def refuse_file_name(text: str) -> None:
    """Refuse a text that is the name of a file, which would be read as an event type.

    >>> refuse_file_name("EVENT SEQ(A a, B b)")
    >>> refuse_file_name("rules.tocsin")
    Traceback (most recent call last):
    tocsin.errors.InputError: error: 'rules.tocsin' looks like a file name, not like a query
      hint: to read the file, give a path: tocsin.query(Path('rules.tocsin'))
    """
    if len(text) > 1000 or re.search(r"[\s(`]", text) or not re.search(r"[./\\]", text):
        return
    if text.lower().endswith(ENDINGS) or "/" in text or "\\" in text or _is_file(text):
        raise InputError(
            f"{text!r} looks like a file name, not like a query",
            hint=f"to read the file, give a path: tocsin.query(Path({text!r}))",
        )


def _is_file(text: str) -> bool:
    try:
        return Path(text).is_file()
    except (OSError, ValueError):
        return False
