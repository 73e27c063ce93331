"""`python -m ingot` is the program `ingot`."""

from ingot.cli import main

main()
