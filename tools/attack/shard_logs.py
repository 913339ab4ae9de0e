"""The stored state of a shard, its head and the blocks of its log: damaged, exchanged, or lost."""

from __future__ import annotations

from collections import OrderedDict
from functools import cache
from random import Random
from typing import Any

import pyarrow as pa

from tests.shard_support import Memory, Stream, ask, frame_of
from tocsin.codec import decode, encode, stamp
from tocsin.lang.parser import parse_file
from tocsin.shards import shard as shards
from tocsin.shards.watermark import Slack
from tools.attack.core import Input, Surface, WrongAnswerError
from tools.attack.stored import hurt

QUERIES = (
    "EVENT SEQ(A a, !C c, B b) WHERE [id] WITHIN 60",
    "EVENT SEQ(A a, B b) WITHIN 40",
    "QUERY p EVENT SEQ(A a, B b) WHERE [id] WITHIN 50 SELECT a.id AS id; QUERY q EVENT SEQ(p x, C c) WITHIN 90",
    "EVENT SEQ(A a, B b, C c) WHERE [id] CONSUME chronicle",
    "EVENT SEQ(A a, B b) WHERE [id] WITHIN 40 AFTER MATCH SKIP PAST LAST EVENT DISTINCT BY b.s EVERY 9",
    "EVENT SEQ(A a, B b) WHERE [id] WITHIN 40 SELECT id, count(*) AS n, sum(b.v) AS s GROUP BY id EVERY 20",
    "EVENT SEQ(A a, B b) WHERE [id] WITHIN 9 LIMIT 2 PER id",
    "EVENT SEQ(A a, FIRST B b, C? c, A d) WHERE [id] WITHIN 30 TIMEOUT",
    "EVENT SEQ(A a, (SEQ(B x, C y))+ g, A z) WHERE [id] WITHIN 40",
    "INTERVALS Up FROM A, B BY id AS High WHEN v > 9, Low WHEN v <= 9 END LAST SELECT count(*) AS n",
    "INTERVALS Visit FROM A BY id SESSION GAP 9; EVENT SEQ(Visit x, C c) WHERE [id] WITHIN 40",
)


class Store(Memory):
    """A store in which removing what is not there is no error, as in Spark's."""

    def remove(self, number: int) -> None:
        self.blocks.pop(number, None)


def rows(first: int, count: int) -> list[dict[str, Any]]:
    return [
        {"type": "ABC"[at % 3], "start": at, "end": at, "eid": at, "id": at % 2, "v": at, "s": "xy"[at % 2]}
        for at in range(first, first + count)
    ]


@cache
def asked(text: str) -> Any:
    return ask(tuple(parse_file(text)), frame_of(pa.int64()))


def begun(text: str) -> Stream:
    """Return a stream that has taken a few batches; its shards are only in their stores."""
    stream = Stream(asked(text), Slack(2), Random(1), calm=True)  # noqa: S311 - not for secrets
    for first in range(0, 24, 6):
        stream.batch(rows(first, 6))
    return stream


@cache
def stored(text: str) -> Memory:
    return begun(text).stores[0]


def make(random: Random) -> Input:
    """Draw damage to the head or to one block; sometimes the head vouches for the damaged block."""
    text = random.choice(QUERIES)
    store = stored(text).copy()
    assert store.head is not None
    kept = {"query": text}
    chosen = random.choice(list(store.blocks))
    match random.randrange(5):
        case 0 | 1:
            head, right = hurt(random, store.head)
            return {**kept, "head": head, "refuse": not right and head != store.head}
        case 2:
            block, _ = hurt(random, store.blocks[chosen])
            return {**kept, "number": chosen, "block": block, "refuse": block != store.blocks[chosen]}
        case 3:
            return {**kept, "number": chosen, "block": None, "refuse": True}
    block, _ = hurt(random, store.blocks[chosen])
    return {**kept, "number": chosen, "block": block, "head": vouched(store.head, chosen, block), "refuse": False}


def vouched(head: bytes, number: int, block: bytes) -> bytes:
    """Return a head that says of the damaged block what it now is."""
    held = decode(head, shards.KIND)
    words = dict(held.words)
    for each in words["blocks"]:
        if each["number"] == number:
            each |= {"size": len(block), "check": stamp(block)}
    return encode(shards.KIND, words, blobs=held.blobs)


def judge(given: Input) -> None:
    """Let another worker take up the damaged state, and go on."""
    whole = stored(given["query"])
    store = Store(whole.head, dict(whole.blocks))
    store.head = given.get("head", store.head)
    if "block" in given:
        store.blocks.pop(given["number"])
        if given["block"] is not None:
            store.blocks[given["number"]] = given["block"]
    stream = Stream(asked(given["query"]), Slack(2), Random(1), calm=True)  # noqa: S311 - not for secrets
    stream.stores, stream.workers = {0: store}, [OrderedDict(), OrderedDict()]
    stream.batch(rows(24, 6))
    stream.close()
    if given["refuse"]:
        raise WrongAnswerError("damaged state is taken: as if it were whole")


SURFACE = Surface("shard_logs", make, judge, share=2)
