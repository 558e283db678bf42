"""Why a door does not open, for the person who starts the server."""


class DoorError(Exception):
    """The door cannot be opened; the text says why."""
