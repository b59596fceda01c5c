"""The one exception that means: the user can fix this."""


class UserError(Exception):
    """A mistake in what the user asked for, or damage in what they passed.

    The message is one sentence that names the culprit and, where there is one, the way out.
    The command line prints it without a traceback and exits with status 2.
    """
