"""`python -m turnlog` is the command line."""

from turnlog.cli.main import main

main(prog_name="turnlog")
