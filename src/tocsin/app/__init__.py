"""What a person runs: the command line."""
