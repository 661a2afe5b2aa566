"""Grammars, ways of sampling that bring their texts to an end, and clusters that serve them."""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from drafter.config import DrafterConfig
from protocol.messages import Ending, Grammar, Sampling
from tests.cluster import Answer, Cluster
from tests.exact.conftest import CHUNK, PAGE, Target
from tests.models import bytes_tokenizer

ROOM: Final = Ending(96)
SCHEMA: Final = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 8},
        "kind": {"enum": ["red", "green"]},
        "count": {"type": "integer", "minimum": 0, "maximum": 999},
    },
    "required": ["name", "kind", "count"],
    "additionalProperties": False,
}
OBJECT: Final = Grammar("json_object")
PERSON: Final = Grammar("json_schema", json.dumps(SCHEMA))
CODE: Final = Grammar("regex", "[a-c]{3}-[0-9]{2,9}(x|yz)*")
SUMS: Final = Grammar("lark", 'start: sum ";"\nsum: /[0-9]{1,3}/ | sum "+" /[0-9]{1,3}/')


def ids(text: str) -> list[int]:
    return bytes_tokenizer().encode(text).ids


def liking(**bias: float) -> dict[str, Any]:
    named = {"space": " \n\r\t", "quote": '"', "close": "}", "semicolon": ";"}
    return {
        "logit_bias": tuple(
            (token, value) for name, value in bias.items() for token in ids(named[name])
        )
    }


CASES: Final = (
    (CODE, Sampling()),
    (OBJECT, Sampling(**liking(space=-100.0, quote=5.0, close=3.0))),
    (OBJECT, Sampling(**liking(space=-100.0, quote=5.0))),
    (PERSON, Sampling(**liking(space=-100.0))),
    (PERSON, Sampling(temperature=1.0, top_p=0.9, seed=4, **liking(space=-100.0))),
    (CODE, Sampling(temperature=1.2, top_k=20, seed=5)),
    (OBJECT, Sampling(temperature=1.0, seed=2, **liking(space=-100.0, quote=5.0))),
    (SUMS, Sampling(temperature=0.8, seed=6, frequency_penalty=0.5, **liking(semicolon=-1.0))),
)
"""A grammar and a way of sampling for each of the eight prompts."""
GRAMMARS: Final = [grammar for grammar, _ in CASES]
SAMPLINGS: Final = [sampling for _, sampling in CASES]


def cluster(target: Target, *drafters: DrafterConfig, draft_length: int, **more: Any) -> Cluster:
    return Cluster(
        target.folder,
        drafters,
        draft_length=draft_length,
        page_size=PAGE,
        max_chunk=CHUNK,
        **more,
    )


def undrafted(target: Target) -> list[Answer]:
    """All cases without a drafter: the right values."""
    return cluster(target, draft_length=0).generate(target.prompts, ROOM, SAMPLINGS, GRAMMARS)


def drafter(method: str, target: Target) -> DrafterConfig:
    return DrafterConfig(node_id="drafter-0", method=method, model=target.folder, dtype="float32")


def scripted(folder: Path, entries: Sequence[tuple[Sequence[int], Sequence[int]]]) -> DrafterConfig:
    script = folder / "script.json"
    by_prompt = [{"prompt": list(prompt), "output": list(output)} for prompt, output in entries]
    script.write_text(json.dumps({"by_prompt": by_prompt}))
    return DrafterConfig(node_id="drafter-0", method="scripted", script=script)


def seen(answers: Sequence[Answer]) -> list[tuple[list[int], str, str]]:
    return [(each.tokens, each.text, each.done.reason if each.done else "") for each in answers]


def accepted(answers: Sequence[Answer]) -> int:
    return sum(each.done.statistics.accepted for each in answers if each.done)


def is_person(text: str) -> bool:
    person = json.loads(text)
    return (
        list(person) == ["name", "kind", "count"]
        and len(person["name"]) <= 8
        and person["kind"] in ("red", "green")
        and person["count"] in range(1000)
    )


VALID: Final[Mapping[str, Callable[[str], object]]] = {
    "json_object": lambda text: isinstance(json.loads(text), dict),
    "json_schema": is_person,
    "regex": lambda text: re.fullmatch(CODE.text, text),
    "lark": lambda text: re.fullmatch(r"\d{1,3}(\+\d{1,3})*;", text),
}
