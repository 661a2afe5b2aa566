"""What a history ends with when something that must hold did not."""


class Breach(AssertionError):
    """An invariant was broken; the text says which and where."""
