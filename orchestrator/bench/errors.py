"""What can go wrong while measuring."""


class BenchError(Exception):
    """A measurement failed or cannot be made, so there are no figures; the text is for the user."""
