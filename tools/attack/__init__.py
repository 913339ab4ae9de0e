"""Attack: structured fuzzing of every way in; each input gives the right answer or one TocsinError, nothing else.

    python -m tools.attack [--inputs 4000] [--seconds 300] [--seed 1] [--surface rows] [--only 17]
    python -m tools.attack --replay out/attack/rows-17.json

A surface is one way in: it makes inputs from a source of randomness, and judges what became of each. Inputs run in a
child process, so that one that kills or stops the process is a finding like any other.
"""
