"""Strategies for events that come late: sorted first, answers held, answers corrected, or a mixture.

`tocsin.order.strategy` says how a strategy is written; `Query.detect` and `Query.stream` take it as `order=`.
"""
