"""Commands, as tests run them."""

from sino.cli import main


def status(*given) -> int:
    """Of a command, also when the parser is the one that ends it."""
    try:
        return main([str(argument) for argument in given])
    except SystemExit as exit:
        return exit.code
