"""The query language: text and fluent Python over the same frozen syntax nodes."""
