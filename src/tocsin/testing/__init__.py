"""Testing tools, for users too: histories as text, the oracle, case files, generators of queries and streams."""
