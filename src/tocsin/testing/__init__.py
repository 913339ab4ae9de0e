"""Tools to say what must be found and to judge who finds it: notation, oracle, case files. For users too."""
