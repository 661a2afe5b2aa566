"""What a check found."""

from dataclasses import dataclass
from enum import StrEnum


class Grade(StrEnum):
    """`BAD` keeps a service from running as it is configured, `DOUBT` may make it slow or fail later."""

    GOOD = "ok"
    DOUBT = "warn"
    BAD = "fail"


@dataclass(frozen=True)
class Finding:
    """One sentence about one thing; what is not good comes with a hint."""

    what: str
    grade: Grade
    text: str
    hint: str = ""


def good(what: str, text: str) -> Finding:
    return Finding(what, Grade.GOOD, text)


def doubt(what: str, text: str, hint: str) -> Finding:
    return Finding(what, Grade.DOUBT, text, hint)


def bad(what: str, text: str, hint: str) -> Finding:
    return Finding(what, Grade.BAD, text, hint)
