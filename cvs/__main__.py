"""`python -m cvs` is `cvs`."""

from cvs.cli import main

main()
