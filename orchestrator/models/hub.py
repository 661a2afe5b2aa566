"""Models of the Hugging Face hub, fetched by its own library into its own cache and reused offline from there."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Final

ID: Final = re.compile(r"(?P<repository>[\w.-]+/[\w.-]+?)(@(?P<revision>[\w./-]+))?")
"""`owner/name`, perhaps with `@` and a branch, tag or commit."""
FILES: Final = (
    "*.safetensors",
    "*.safetensors.index.json",
    "*config.json",
    "tokenizer*",
    "*.jinja",
)
"""What is read of a repository: never a pickle."""
CODE: Final = ("*.py",)

Snapshot = Callable[..., str]
"""`huggingface_hub.snapshot_download`, or what stands for it."""


def snapshot(name: str, *, code: bool, download: Snapshot | None = None) -> Path | str:
    """The folder of a repository, with its code if asked for; or, as one sentence, why there is none."""
    found = ID.fullmatch(name)
    if found is None:
        return f"{name!r} is no hub id"
    from huggingface_hub import snapshot_download  # noqa: PLC0415  # a third of a second
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError  # noqa: PLC0415

    fetch = download or snapshot_download
    try:
        return Path(
            fetch(
                found["repository"],
                revision=found["revision"],
                allow_patterns=[*FILES, *(CODE if code else ())],
            )
        )
    except (OSError, HfHubHTTPError, HFValidationError, ValueError) as error:
        said = (str(error).strip() or type(error).__name__).splitlines()
        return f"the hub's library says: {said[0].rstrip('.')}"
