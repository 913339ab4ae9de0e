"""Derivation at the edge: a definition of intervals as a small program for the device that has the readings."""
