"""Constraints: what is known of the order of events tells early that a query must match, or cannot any more."""
