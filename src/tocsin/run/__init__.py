"""The embedded runner: data in, matches out, in this process. Only here is the real clock read."""
