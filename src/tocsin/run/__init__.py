"""The embedded runner: data in, matches out, in this process. Nothing below it reads a clock."""
