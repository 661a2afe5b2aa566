"""The file that methods for experiments read what they guess from."""

from typing import TypeVar

import msgspec

from drafter.config import DrafterConfig

Content = TypeVar("Content")


def read_script(
    config: DrafterConfig, kind: type[Content], error: type[ValueError], what: str
) -> Content:
    """What the file `config.script` holds; an `error`, which calls it `what`, says why it cannot be had."""
    if config.script is None:
        raise error(f"method {config.method} needs `script`: a JSON file")
    try:
        return msgspec.json.decode(config.script.read_bytes(), type=kind)
    except OSError as cause:
        raise error(f"{what} {config.script} cannot be read: {cause.strerror}") from cause
    except msgspec.MsgspecError as cause:
        raise error(f"{what} {config.script}: {cause}") from cause
