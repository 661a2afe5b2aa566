"""From what a head drew after the newest commit to what its mirror must be told. Pure."""

from collections.abc import Sequence

from drafter.mirror import Mirror


def length(mirror: Mirror) -> int:
    """Tokens of prompt and committed output."""
    return len(mirror.prompt) + mirror.base


def text(mirror: Mirror, start: int = 0, end: int | None = None) -> list[int]:
    """Prompt and committed output, from position `start` to `end`."""
    prompt, end = len(mirror.prompt), length(mirror) if end is None else end
    output = mirror.line[max(0, start - prompt) : max(0, end - prompt)]
    return [*mirror.prompt[start:end], *output] if start < prompt else output


def renewed(
    mirror: Mirror, tokens: Sequence[int], confidences: Sequence[float]
) -> tuple[Sequence[int], Sequence[float]]:
    """What goes behind the mirror's line, when these are the newest guesses from its base on.

    Guesses on the line stay while they are the same; from the first that is not, they are taken back.
    """
    old = mirror.line[mirror.base :]
    for place, (before, now) in enumerate(zip(old, tokens, strict=False)):
        if before != now:
            mirror.replace(mirror.base + place, (), ())
            return tokens[place:], confidences[place:]
    return tokens[len(old) :], confidences[len(old) :]
