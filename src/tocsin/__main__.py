"""`python -m tocsin` is the command `tocsin`."""

from tocsin.app.cli import main

main()
