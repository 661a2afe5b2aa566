"""Parts of the docs that are made from code: each stands between two comments, and is written anew in place."""

import re
from collections.abc import Mapping
from typing import Final

END: Final = "<!-- end -->"


def rewritten(text: str, parts: Mapping[str, str], maker: str) -> str:
    """The text of a file with all its parts made anew; an AssertionError names a part that has no place in it."""
    for name, part in parts.items():
        begin = f"<!-- made by {maker}: {name} -->"
        place = re.search(re.escape(begin) + r"\n.*?" + re.escape(END), text, flags=re.DOTALL)
        assert place, f"there is no place for {name}"
        text = f"{text[: place.start()]}{begin}\n\n{part}\n\n{END}{text[place.end() :]}"
    return text
