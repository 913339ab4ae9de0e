"""Derived intervals at work: runs of a state, sessions and pairs, out of settled readings in columns."""
