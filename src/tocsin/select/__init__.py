"""Selection among matches: operators that stand around a query and keep some of its matches."""
