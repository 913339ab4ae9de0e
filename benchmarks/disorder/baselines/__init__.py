"""The algorithms that the papers compare, in plain Python: flat sequences with negations, strict order, a window."""
