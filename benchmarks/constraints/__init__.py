"""The constraint benchmark: detection under constraints beside plain detection (Li 2010, 3.6)."""
