"""Jobs: pipeline files that name sources, queries and sinks; run live as a stream or over history as a backfill."""
