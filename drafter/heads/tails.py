"""From what a head drew after the newest commit to what its mirror must be told. Pure."""

from collections.abc import Sequence

from drafter.guesses import Guess
from drafter.mirror import Mirror
from drafter.proposers import Proposal


def length(mirror: Mirror) -> int:
    """Tokens of prompt and committed output."""
    return len(mirror.prompt) + mirror.base


def text(mirror: Mirror, start: int = 0, end: int | None = None) -> list[int]:
    """Prompt and committed output, from position `start` to `end`."""
    prompt, end = len(mirror.prompt), length(mirror) if end is None else end
    output = mirror.line[max(0, start - prompt) : max(0, end - prompt)]
    return [*mirror.prompt[start:end], *output] if start < prompt else output


def renewed(mirror: Mirror, guesses: Sequence[Guess], *, pending: bool = False) -> Proposal:
    """What goes behind the mirror's line, when these are the newest guesses from its base on.

    Guesses that are functions of text and seed stay on the line while they are the same; from the first that is not,
    they are taken back. Drawn ones replace the whole line as soon as they reach as far, whatever the tokens: to keep
    one because it was drawn again would be to look at it (methods 1.13 iii).
    """
    old = len(mirror.line) - mirror.base
    if guesses and guesses[0].law is not None:
        stays = [each is guess.law for each, guess in zip(mirror.laws, guesses, strict=False)]
        kept = old if len(stays) == old and all(stays) else 0
        if kept < old > len(guesses):
            return Proposal(pending=pending)
    else:
        line = mirror.line[mirror.base :]
        differs = (
            place
            for place, (token, guess) in enumerate(zip(line, guesses, strict=False))
            if token != guess.token
        )
        kept = next(differs, old)
    if kept < old:
        mirror.replace(mirror.base + kept, (), ())
    new = guesses[kept:]
    return Proposal(
        [each.token for each in new],
        [each.confidence for each in new],
        pending=pending,
        laws=[each.law for each in new if each.law is not None],
    )
