"""The one exception that means: the user can fix this."""

from collections.abc import Mapping
from typing import Any


class UserError(Exception):
    """A mistake in what the user asked for, or damage in what they passed.

    The message is one sentence that names the culprit and, where there is one, the way out.
    The command line prints it without a traceback and exits with status 2.
    """


def differences(stored: Mapping[str, Any], asked: Mapping[str, Any]) -> list[str]:
    """What is asked for and is stored otherwise, in words, one for each key of `asked`."""
    return [
        f"{key} is {stored.get(key)!r} there and {value!r} here"
        for key, value in asked.items()
        if stored.get(key) != value
    ]
