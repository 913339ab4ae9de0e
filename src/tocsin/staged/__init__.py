"""Staged statements at work: contexts, windows, counting, timers and consumption over events in canonical order."""
