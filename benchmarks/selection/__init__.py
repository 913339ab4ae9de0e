"""The selection benchmark: which of the many matches, chosen by marks, by clauses and by modes that use events up."""
