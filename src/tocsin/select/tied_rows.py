"""Rows that nothing but their eids can order: events of one key, end, start and rank."""

from __future__ import annotations

import numpy as np

from tocsin.encode.auto_eids import AutoEids
from tocsin.encode.merge import take
from tocsin.items import Ints, Items


def in_canonical_order(items: Items, ranks: Ints, rows: Ints, codes: Ints, at: Ints) -> tuple[Ints, Ints]:
    """Rows and their keys with those at some places in the order of their eids, each event once.

    Of one key and end those go first whose bits in `ranks` are the higher ones.
    """
    tied = take(items, rows[at])
    named = AutoEids().named(tied)  # all that can be equal to them are among them
    assert named.eid_high is not None and named.eid_low is not None
    rank = -np.frexp(ranks[rows[at]].astype(np.float64))[1]
    order = np.lexsort((named.types, named.eid_low, named.eid_high, tied.start, rank, codes[at], tied.end))
    places = at[np.lexsort((at, codes[at], tied.end))]
    same = np.zeros(len(order), np.bool_)
    columns = (named.types, named.eid_low, named.eid_high, tied.start, tied.end, codes[at])
    same[1:] = np.logical_and.reduce([column[order][1:] == column[order][:-1] for column in columns])
    rows, codes = rows.copy(), codes.copy()
    rows[places], codes[places] = rows[at[order]], codes[at[order]]
    if not same.any():
        return rows, codes
    once = np.ones(len(rows), np.bool_)
    once[places[same]] = False
    return rows[once], codes[once]
