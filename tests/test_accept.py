"""`make accept` rewrites what is wrong, keeps what is right, and leaves errors and comments alone."""

from __future__ import annotations

from tools import accept

BEFORE = """# about the case
query
EVENT SEQ(A a, B b)
stream
a1 b2 b3
----
a1 b2
# a remark

stream
a1 b2
----
a1 b2
query
EVENT SEQ(A a, !B b, C c)
stream
a1 c3
----
stream
a1 b2 c3
----
a1 c3
query
EVENT SEQ(
stream
a1
----
error: something else
"""
AFTER = BEFORE.replace("a1 b2\n# a remark", "a1 b2\na1 b3\n# a remark").replace(
    "a1 c3\n----\nstream\na1 b2 c3\n----\na1 c3\n", "a1 c3\n----\na1 c3\nstream\na1 b2 c3\n----\n"
)


def test_accept_rewrites_only_what_both_agree_on(tmp_path, capsys):
    path = tmp_path / "some.case"
    path.write_text(BEFORE)
    assert accept.accept(path) == 3
    assert path.read_text() == AFTER
    assert accept.accept(path) == 0


def test_a_wrong_engine_changes_nothing(tmp_path, monkeypatch):
    path = tmp_path / "some.case"
    path.write_text(BEFORE)
    monkeypatch.setattr(accept, "EngineUnderTest", lambda *, jit: lambda queries, items, options: [])
    assert accept.accept(path) == 1  # the one case in which no match is right
    assert path.read_text() != AFTER
