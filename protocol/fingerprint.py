"""A name for what a tokenizer means, so that two processes can tell whether the same ids are the same tokens."""

import hashlib
import json
from pathlib import Path


def tokenizer_fingerprint(folder: Path) -> str:
    """SHA-256 over the sorted (token, id) pairs of `tokenizer.json`, added tokens included.

    Padding of the embedding does not count; two swapped ids do. A folder without a tokenizer is a FileNotFoundError.
    """
    from tokenizers import Tokenizer  # noqa: PLC0415  (40 ms that only those pay who load a tokenizer)

    path = folder / "tokenizer.json"
    if not path.is_file():
        raise FileNotFoundError(f"{folder} has no tokenizer.json")
    vocabulary: dict[str, int] = Tokenizer.from_file(str(path)).get_vocab(with_added_tokens=True)
    pairs = json.dumps(sorted(vocabulary.items()), ensure_ascii=True, separators=(",", ":"))
    return hashlib.sha256(pairs.encode()).hexdigest()
