"""Tocsin: complex event detection for people who work in Python and Spark."""
