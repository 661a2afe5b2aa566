"""What a history ends with when something that must hold did not."""


class Breach(AssertionError):  # noqa: N818  # it is what was found, not what went wrong here
    """An invariant was broken; the text says which and where."""


def holds(condition: object, *words: object) -> None:
    """A breach with these words unless the condition is true."""
    if not condition:
        raise Breach(" ".join(map(str, words)))
