"""vLLM's dotted flags: `--speculative-config.KEY VALUE`, or with `=`, says one key of a JSON object."""

import json
from collections.abc import Iterator, Sequence
from typing import Final

FLAG: Final = "--speculative-config"


def spelled(arguments: Sequence[str]) -> list[str]:
    """The same command line, where each dotted flag says a JSON object of its own."""
    return list(_spelled(iter(arguments)))


def _spelled(arguments: Iterator[str]) -> Iterator[str]:
    for argument in arguments:
        if not argument.startswith(f"{FLAG}."):
            yield argument
            if argument == "--":
                break
            continue
        name, joined, value = argument.partition("=")
        following = value if joined else next(arguments, None)
        if following is None:
            yield argument  # refused for what it is: a flag without a value
            continue
        yield FLAG
        yield json.dumps(_nested(name.removeprefix(f"{FLAG}.").split("."), _value(following)))
    yield from arguments


def _nested(path: Sequence[str], value: object) -> object:
    return {path[0]: _nested(path[1:], value)} if path else value


def _value(text: str) -> object:
    """What JSON makes of it; any other text is itself."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text
