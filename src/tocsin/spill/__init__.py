"""Spilling: state on disk, for detectors that must stay below a memory limit."""
