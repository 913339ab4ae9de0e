"""Strategies around a detector, for streams out of order; they come with that work.

Until then the detector takes items in any order and corrects itself. "In order" is built into it: where time is
promised never to go back, it forgets what no later event can reach.
"""
