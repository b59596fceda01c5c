"""`python -m sino` is `sino`."""

import sys

from sino.cli import main
from sino.cli.pages import use_large_pages


def run() -> None:
    """The command, as a program of its own."""
    use_large_pages()
    sys.exit(main())


if __name__ == "__main__":
    run()
