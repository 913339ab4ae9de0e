"""Closed traces: give the answers that still waited, and empty the buffers of the key; other keys are not touched."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache, partial
from typing import Any, TypeAlias

import numpy as np

from tocsin.encode.batch import one_batch
from tocsin.encode.stored import RowReader
from tocsin.engine import runtime as rt
from tocsin.engine.branch import Branch
from tocsin.engine.changes import ChangeBatch, Changes, Members
from tocsin.engine.detector import Detector, judge_now
from tocsin.engine.number_set import distinct
from tocsin.engine.operator import Operator
from tocsin.engine.partial_state import drop_rows_of_others
from tocsin.engine.runtime.keys import key_hash
from tocsin.events import END_OF_TIME
from tocsin.items import Bools, Ints, Items, is_sorted
from tocsin.plan.block import Plan
from tocsin.plan.rewrite import all_leaves
from tocsin.select.key_codes import KeyCodes

Times: TypeAlias = tuple[Ints, Ints]
KM_SIZE, DENSE, FAR, FREE_KEY, KEYS_USED = rt.KM_SIZE, rt.DENSE, rt.FAR, rt.FREE_KEY, rt.KEYS_USED


def release(query: Operator, plan: Plan, keys: KeyCodes, closed: Ints) -> int:
    """Forget the events of closed traces in the detectors of a query; return how many there were."""
    places = _places(plan)
    if places is None:
        return 0
    words = keys.words_of(closed)[:, places]
    return sum(_from(detector, words) for detector in query.detectors)


def answering_early(query: Operator, plan: Plan) -> Detector | None:
    """The detector of a query whose answers need not wait when their trace is closed; None where they wait.

    They wait where something stands around the detector, or where a key does not tell which of them are of a trace; and
    there is nobody to ask where no answer ever waits.
    """
    assert plan.under is not None
    detector = next(iter(query.detectors), None)
    if detector is not query or not any(branch.program.waits for branch in detector.branches):
        return None
    return detector if not plan.under.key or _places(plan) is not None else None


def answer(query: Operator, plan: Plan, keys: KeyCodes, sure: Ints, when: Ints, passed: int) -> Changes | None:
    """Give the answers of closed and quiet traces that wait to be refuted: nothing comes any more that could do that.

    sure    the codes of the traces; `when`: the end of the event since which nothing can come
    passed  up to here events are settled: of later ones nobody knows yet whether their traces allow them
    """
    if not len(sure):
        return None
    detector = answering_early(query, plan)
    if detector is None or not any(branch.waiting for branch in detector.branches):
        return None
    places = _places(plan)
    if places is None:  # all events are of one trace
        chosen = [_settled(branch, np.full(branch.waiting, when[-1]), passed) for branch in detector.branches]
    else:
        words = keys.words_of(sure)[:, places]
        chosen = [_settled(branch, _waiting(branch, words, when), passed) for branch in detector.branches]
    return None if all(each is None for each in chosen) else judge_now(detector, chosen)


def known_sooner(found: ChangeBatch, codes_of: Callable[[Items], Ints], reader: RowReader, times: Times) -> ChangeBatch:
    """Answers that came in one push with what closed their traces: these were certain then, and not at a deadline.

    codes_of  the codes of the traces of events
    times     the codes of closed and quiet traces, in order, and since when each is so
    """
    known_since, when = times
    rows = np.flatnonzero(found.known_at > when.min(initial=END_OF_TIME))
    if not len(rows):
        return found
    some = found.pick(rows)
    events = np.max([*some.fixed, *(_last_of(each) for each in some.repeated.values())], axis=0)
    known = some.payload.rows(distinct([events]))
    codes = codes_of(reader.items(one_batch(known.table)))[known.at(events)]
    at = np.minimum(np.searchsorted(known_since, codes), len(known_since) - 1)
    last = known.end[known.at(events)]
    sooner = found.known_at.copy()
    certain = np.minimum(np.maximum(when[at], last), sooner[rows])
    sooner[rows] = np.where(known_since[at] == codes, certain, sooner[rows])
    found = replace(found, known_at=sooner)
    return found if is_sorted(sooner) else found.pick(np.argsort(sooner, kind="stable"))


def _last_of(members: Members) -> Ints:
    """The last member of each answer, -1 where it has none."""
    ends = members.offsets[1:]
    return np.where(np.diff(members.offsets) > 0, np.append(members.events, -1)[ends - 1], -1)


def _settled(branch: Branch, times: Ints, passed: int) -> tuple[Bools, Ints] | None:
    """Which waiting answers of a branch are certain, and when: none is before its last event.

    times  for each since when nothing can refute it, or END_OF_TIME
    """
    if not len(times):
        return None
    last = branch.bound(branch.waiting_answers())[:, 1::2].max(axis=1)
    which = (last <= passed) & (times < END_OF_TIME)
    return (which, np.maximum(times, last)[which]) if which.any() else None


def _waiting(branch: Branch, words: Ints, when: Ints) -> Ints:
    """For each waiting answer of a branch the time `when` of its key; END_OF_TIME if that is not among the keys."""
    if not branch.waiting:
        return when[:0]
    codes: Ints = np.zeros(len(words), np.int64)
    _loop("known", jit=branch.is_compiled)(words, len(words), words.shape[1], branch.T, branch.KM.reshape(-1), codes)
    rows = branch.waiting_answers()
    order = np.argsort(codes)
    at = np.minimum(np.searchsorted(codes[order], rows[:, 1]), len(codes) - 1)
    return np.where((codes[order][at] == rows[:, 1]) & (rows[:, 1] > 0), when[order][at], END_OF_TIME)


def _places(plan: Plan) -> list[int] | None:
    """For each attribute of the query's key its place in the key of the traces; None if the two keys differ."""
    under = plan.under
    assert under is not None
    known = {attrs for _, attrs in plan.key}
    if not under.key or len(known) != 1 or len(dict(plan.key)) != len(list(all_leaves(plan))):
        return None
    order = next(iter(known))
    return [under.key.index(attr) for attr in order] if set(order) == set(under.key) else None


def _from(detector: Detector, words: Ints) -> int:
    """Forget them in one detector, but for branches in which answers wait: those are judged by the stored events."""
    found = 0
    for branch in detector.branches:
        if not branch.is_ready or branch.waiting:
            continue
        leaves = len(branch.program.leaf_ids)
        run = _loop("empty", jit=branch.is_compiled)
        found += run(words, len(words), words.shape[1], branch.T, branch.KM.reshape(-1), branch.D, branch.N, leaves)
    return int(found)


def rows_kept(query: Operator) -> int:
    """How many rows the detectors of a query keep."""
    return sum(detector.payload.count for detector in query.detectors)


def events_kept(query: Operator) -> int:
    """How many events the detectors of a query have stored, counted once for each leaf at which they are stored."""
    return sum(branch.live for detector in query.detectors for branch in detector.branches)


def drop_rows(query: Operator) -> None:
    """Drop the rows of events that were released."""
    for detector in query.detectors:
        if all(branch.is_ready and branch.is_compiled for branch in detector.branches):
            detector.payload.keep(distinct([_stored_in(branch) for branch in detector.branches]))
        else:
            drop_rows_of_others(detector)


def _stored_in(branch: Branch) -> Ints:
    """The numbers of the events in the buffers of a branch."""
    found: Ints = np.empty(branch.live, np.int64)
    run = _loop("stored", jit=True)
    return found[: run(branch.D, branch.H, branch.horizon, found)]


@cache
def _loop(name: str, *, jit: bool) -> Any:
    if not jit:
        return partial(_known if name == "known" else _empty, _code_of, key_hash)
    from numba import njit

    if name == "stored":
        return njit(nogil=True)(_stored)
    return partial(njit(nogil=True)(_known if name == "known" else _empty), njit(_code_of), njit(key_hash))


def _stored(D: Any, H: Any, horizon: int, found: Any) -> int:
    """Write down the numbers of all events in some buffers; how many there are."""
    count = 0
    for d in range(len(D)):
        for place in range(D[d, 1], D[d, 2]):
            if H[place, 0] >= horizon:
                found[count] = H[place, 1]
                count += 1
    return count


def _code_of(hashed: Any, words: Any, i: int, parts: int, T: Any, KM: Any) -> tuple[int, int]:
    """The code that a kernel knows a key by, and its slot in the table of keys; 0, and -1, where there is none."""
    mask = T[KM_SIZE] - 1
    code, slot = 0, -1
    for k in range(parts):
        value, prefix = words[i, k], code
        if prefix == 0 and value >= 0 and value < T[DENSE]:
            code = value + 1
            continue
        slot = hashed(prefix, value) & mask
        while KM[3 * slot + 2] != 0 and (KM[3 * slot + 1] != value or KM[3 * slot] != prefix):
            slot = (slot + 1) & mask
        code = KM[3 * slot + 2]
        if code == 0:
            break
    return code, slot


def _known(find: Any, hashed: Any, words: Any, count: int, parts: int, T: Any, KM: Any, codes: Any) -> None:
    """The codes of some keys, 0 where a kernel does not know them."""
    for i in range(count):
        codes[i] = find(hashed, words, i, parts, T, KM)[0]


def _empty(
    find: Any, hashed: Any, words: Any, count: int, parts: int, T: Any, KM: Any, D: Any, N: Any, leaves: int
) -> int:
    """Empty the buffers of some keys, and recycle their codes: nothing comes for them any more."""
    found = 0
    mask = T[KM_SIZE] - 1
    for i in range(count):
        code, slot = find(hashed, words, i, parts, T, KM)
        if code == 0:
            continue
        for d in range(code * leaves, (code + 1) * leaves):
            found += D[d, 2] - D[d, 1]
            D[d, 0] = D[d, 1] = D[d, 2] = D[d, 3] = 0
            N[d] = -FAR
        if slot < 0:
            continue
        D[code * leaves, 0] = T[FREE_KEY]
        T[FREE_KEY] = code
        T[KEYS_USED] -= 1
        KM[3 * slot + 2] = 0
        probe = (slot + 1) & mask  # what stands behind it may stand there only because of it
        while KM[3 * probe + 2] != 0:
            home = hashed(KM[3 * probe], KM[3 * probe + 1]) & mask
            if (probe - home) & mask >= (probe - slot) & mask:
                for k in range(3):
                    KM[3 * slot + k] = KM[3 * probe + k]
                KM[3 * probe + 2] = 0
                slot = probe
            probe = (probe + 1) & mask
    return found
