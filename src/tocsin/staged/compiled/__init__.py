"""Staged statements compiled: one function is written for a statement, which takes columns and gives columns."""
