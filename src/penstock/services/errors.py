"""Why a server does not start, in words for the person who starts it."""


class StartError(Exception):
    """The server cannot start; the text is for the person who started it."""
