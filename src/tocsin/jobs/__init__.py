"""Jobs: pipelines as files, from sources over queries to sinks, run live or over history."""
