"""Everything that a client may ask for comes out with drafts as it does without, over HTTP."""

import json
import re
from collections.abc import Sequence
from typing import Any, Final

import pytest

from drafter.config import DrafterConfig
from tests.cluster import Cluster
from tests.exact.conftest import Target
from tests.web import Json, Web

PROMPT: Final = "one two three one two three one two"
DRAWN: Final = {"temperature": 0.9, "seed": 5}
SCHEMA: Final = {
    "type": "object",
    "properties": {"a": {"type": "boolean"}, "b": {"enum": ["x", "é€"]}},
    "required": ["a", "b"],
    "additionalProperties": False,
}
ASKED: Final[Sequence[Json]] = (
    {"temperature": 0},
    {"temperature": 0, "logprobs": 5},
    {"temperature": 0, "echo": True, "logprobs": 2},
    {"temperature": 0, "echo": True, "logprobs": 0, "max_tokens": 0},
    {"temperature": 0, "prompt_logprobs": 3},
    {"temperature": 0, "repetition_penalty": 1.3, "logprobs": 1},
    {"temperature": 0, "frequency_penalty": 2.0},
    {"temperature": 0, "presence_penalty": -2.0},
    {"temperature": 0, "logit_bias": {"20": 6, "30": -100}},
    {"temperature": 0, "allowed_token_ids": [20, 30, 40, 50], "logprobs": 2},
    {"temperature": 0, "bad_words": ["a", "on", "t"]},
    {"temperature": 0, "min_tokens": 10, "stop_token_ids": list(range(5, 60))},
    {"temperature": 0, "stop": ["e", "o"], "include_stop_str_in_output": True},
    {"temperature": 0, "regex": "[a-f]{3,9}(xy|[0-9]+)", "logprobs": 2},
    {
        "temperature": 0,
        "max_tokens": 400,
        "response_format": {"type": "json_schema", "json_schema": {"schema": SCHEMA}},
    },
    {**DRAWN, "structured_outputs": {"choice": ["yes", "no", 'per"haps']}, "n": 4},
    {**DRAWN},
    {**DRAWN, "n": 3, "best_of": 3, "logprobs": 1},
    {**DRAWN, "n": 2, "prompt": [PROMPT, "other", [7, 8, 9]]},
    {**DRAWN, "top_p": 0.7, "top_k": 40, "min_p": 0.01},
    {**DRAWN, "frequency_penalty": 0.7, "logit_bias": {"20": 1.5}, "logprobs": 3},
    {**DRAWN, "n": 2, "echo": True, "logprobs": 1},
)
CHATS: Final[Sequence[Json]] = (
    {"temperature": 0, "logprobs": True, "top_logprobs": 3},
    {**DRAWN, "n": 2, "logprobs": True, "max_completion_tokens": 9},
    {**DRAWN, "prompt_logprobs": 1, "presence_penalty": 1.0},
)


def web(target: Target, method: str, draft_length: int) -> Web:
    drafter = DrafterConfig(
        node_id="drafter-0", method=method, model=target.folder, dtype="float32"
    )
    return Web(
        Cluster(target.folder, [drafter], draft_length=draft_length, max_running=64), target.folder
    )


def answers(web: Web) -> list[Json]:
    """Whole answers, then what the streams add up to, without what tells of drafts."""
    plain = [
        {"prompt": PROMPT, "max_tokens": 24, "return_token_ids": True, **body} for body in ASKED
    ]
    said: Json = {"messages": [{"role": "user", "content": PROMPT}], "max_tokens": 24}
    chats = [{**said, **body} for body in CHATS]
    streams = [
        {**body, "stream": True, "stream_options": {"include_usage": True}}
        for body in plain
        if "prompt_logprobs" not in body
    ]
    found = [response.json() for response in web.ask(*plain)]
    found += [response.json() for response in web.ask(*chats, path="/v1/chat/completions")]
    found += [joined(response.text) for response in web.ask(*streams)]
    for answer in found:
        for name in ("id", "created", "metrics"):
            answer.pop(name, None)
        for choice in answer["choices"]:
            choice.pop("draftmesh")
            choice.pop("drafted", None)
        answer["usage"].pop("prompt_tokens_details")
    return found


def joined(stream: str) -> Json:
    choices: dict[int, Json] = {}
    *pieces, done = [line.removeprefix("data: ") for line in stream.split("\n\n") if line]
    assert done == "[DONE]"
    for event in map(json.loads, pieces):
        for entry in event["choices"]:
            choice = choices.setdefault(entry["index"], {"logprobs": None, "text": ""})
            choice["text"] += entry.pop("text")
            for name, values in (entry.pop("logprobs") or {}).items():
                choice["logprobs"] = choice["logprobs"] or {}
                choice["logprobs"].setdefault(name, []).extend(values)
            if "token_ids" in entry:
                choice["token_ids"] = choice.get("token_ids", []) + entry.pop("token_ids")
            choice |= {name: value for name, value in entry.items() if value is not None}
    return {"choices": [choices[index] for index in sorted(choices)], "usage": event["usage"]}


@pytest.fixture(scope="module")
def without(target: Target) -> list[Json]:
    return answers(web(target, "suffix", 0))


def close(found: Any, right: Any) -> None:  # noqa: ANN401
    """Equal, but for the last digits of log-probabilities."""
    match right:
        case dict():
            assert set(found) == set(right), (found, right)
            for name in right:
                close(found[name], right[name])
        case list():
            assert len(found) == len(right)
            for one, other in zip(found, right, strict=True):
                close(one, other)
        case float():
            assert found == pytest.approx(right, abs=1e-4)
        case _:
            assert found == right


@pytest.mark.parametrize(
    ("method", "draft_length"),
    [("standalone", 1), ("standalone", 4), ("standalone", 8), ("wrong", 4), ("suffix", 8)],
)
def test_drafts_change_nothing(
    target: Target, without: list[Json], method: str, draft_length: int
) -> None:
    drafted = web(target, method, draft_length)
    found = answers(drafted)
    assert len(found) == len(without)
    for one, other in zip(found, without, strict=True):
        close(one, other)
    drafted.settle()


def test_formats_are_kept_to(without: list[Json]) -> None:
    by_body = list(zip(ASKED, without, strict=False))
    (written,) = (answer for body, answer in by_body if "response_format" in body)
    value = json.loads(written["choices"][0]["text"])
    assert (type(value["a"]), value["b"] in {"x", "é€"}) == (bool, True)
    (matched,) = (answer for body, answer in by_body if "regex" in body)
    assert re.fullmatch("[a-f]{3,9}(xy|[0-9]+)", matched["choices"][0]["text"])
    (chosen,) = (answer for body, answer in by_body if "structured_outputs" in body)
    assert {choice["text"] for choice in chosen["choices"]} <= {"yes", "no", 'per"haps'}
    assert {choice["finish_reason"] for choice in chosen["choices"]} == {"stop"}


def test_a_stream_adds_up_to_the_whole(without: list[Json]) -> None:
    wholes = [
        each for body, each in zip(ASKED, without, strict=False) if "prompt_logprobs" not in body
    ]
    streams = without[len(ASKED) + len(CHATS) :]
    for whole, stream in zip(wholes, streams, strict=True):
        assert stream["usage"] == whole["usage"]
        close(stream["choices"], whole["choices"])


@pytest.mark.parametrize(("method", "draft_length"), [("standalone", 4), ("wrong", 8)])
def test_scores_are_those_of_reading_it_all_again(
    target: Target, method: str, draft_length: int
) -> None:
    """Reported fault 2: what was told while writing is what the target says of the finished text."""
    drafted = web(target, method, draft_length)
    prompt = target.prompts[3]
    body = {"prompt": prompt, "max_tokens": 24, "logprobs": 4, "temperature": 0}
    written = drafted.ask({**body, "return_token_ids": True}, {**body, "logprobs": None})
    first, beside = (response.json()["choices"][0] for response in written)
    assert beside["logprobs"] is None
    line = prompt + first["token_ids"]
    again = {"prompt": line, "max_tokens": 0, "echo": True, "logprobs": 4}
    read = drafted.ask(again)[0].json()["choices"][0]
    for name in ("tokens", "token_logprobs", "top_logprobs"):
        close(first["logprobs"][name], read["logprobs"][name][len(prompt) :])
    for token, top in zip(
        first["logprobs"]["tokens"], first["logprobs"]["top_logprobs"], strict=True
    ):
        assert list(top.values()) == sorted(top.values(), reverse=True)
        assert token in top


def test_parts_of_characters_join(target: Target) -> None:
    """Bytes of several characters in whatever order: no piece splits one, and the pieces are the whole."""
    drafted = web(target, "standalone", 4)
    tokens = list(range(5, 261))
    body: Json = {
        "prompt": "aé€🦜",
        "max_tokens": 60,
        "seed": 3,
        "allowed_token_ids": tokens,
        "logit_bias": {str(token): 8 for token in tokens[-90:]},
        "ignore_eos": True,
    }
    whole, stream = drafted.ask(body, {**body, "stream": True})
    events = [json.loads(line[6:]) for line in stream.text.split("\n\n") if "{" in line]
    pieces = [choice["text"] for event in events for choice in event["choices"]]
    assert "".join(pieces) == whole.json()["choices"][0]["text"]
