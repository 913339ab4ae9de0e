"""The speed that a user sees: from a table to a table of matches through `query.detect`, beside DuckDB and Polars."""
