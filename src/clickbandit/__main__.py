"""`python -m clickbandit` is `clickbandit`."""

from clickbandit.cli import main

main()
