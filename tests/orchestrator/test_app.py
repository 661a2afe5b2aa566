"""What the HTTP side answers, over a mesh side that answers by a script."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from orchestrator.front.messages import Member, Status
from protocol.messages import Fingerprint
from tests.orchestrator.http_app import READY, FakeDoor, Http, events


def test_a_completion_is_whole(http: Http) -> None:
    body = http.complete(prompt=[7, 8, 9], max_tokens=8).json()
    assert body["object"] == "text_completion"
    assert body["model"] == "tiny"
    assert body["choices"] == [
        {
            "index": 0,
            "text": "<7><8><9>",
            "logprobs": None,
            "finish_reason": "stop",
            "draftmesh": {"rounds": 4, "drafted": 6, "accepted": 3},
        }
    ]
    assert body["usage"] == {
        "prompt_tokens": 3,
        "completion_tokens": 3,
        "total_tokens": 6,
        "prompt_tokens_details": {"cached_tokens": 0},
    }


def test_a_chat_is_whole_and_its_prompt_comes_from_the_template(http: Http) -> None:
    body = http.chat().json()
    assert body["object"] == "chat.completion"
    (choice,) = body["choices"]
    assert choice["message"] == {"role": "assistant", "content": "".join(map(tag, http_ids(http)))}
    assert http_ids(http) == (3, *bytes_of(http, "hi"), 2, 4)


def http_ids(http: Http) -> tuple[int, ...]:
    return http.door.queries[-1].tokens


def bytes_of(http: Http, text: str) -> tuple[int, ...]:
    http.complete(prompt=text)
    return http.door.queries.pop().tokens


def tag(token: int) -> str:
    return f"<{token}>"


@pytest.mark.parametrize("kind", ["complete", "chat"])
@pytest.mark.parametrize("n", [1, 3])
def test_a_stream_joins_to_the_whole_text(http: Http, kind: str, n: int) -> None:
    body: dict[str, Any] = {"n": n, "return_token_ids": True}
    body |= {"prompt": "some text"} if kind == "complete" else {}
    ask = getattr(http, kind)
    whole = ask(**body).json()
    *pieces, done = events(ask(**body, stream=True))
    assert done == "[DONE]"
    assert {piece["object"] for piece in pieces} == {
        "text_completion" if kind == "complete" else "chat.completion.chunk"
    }
    for choice in whole["choices"]:
        mine = [c for p in pieces for c in p["choices"] if c["index"] == choice["index"]]
        if kind == "chat":
            assert mine[0]["delta"] == {"role": "assistant", "content": ""}
            assert (
                "".join(c["delta"].get("content", "") for c in mine)
                == (choice["message"]["content"])
            )
        else:
            assert "".join(c["text"] for c in mine) == choice["text"]
        for field in ("token_ids", "drafted"):
            assert [x for c in mine for x in c.get(field, [])] == choice[field]
        assert [c["finish_reason"] for c in mine if c["finish_reason"]] == [choice["finish_reason"]]
        assert mine[-1]["draftmesh"] == choice["draftmesh"]


def test_usage_comes_last_and_only_when_wanted(http: Http) -> None:
    plain = events(http.complete(prompt="ab", stream=True))
    assert all("usage" not in piece for piece in plain[:-1])
    options = {"include_usage": True}
    *pieces, last, _ = events(http.complete(prompt="ab", stream=True, stream_options=options))
    assert {piece["usage"] for piece in pieces} == {None}
    assert (last["choices"], last["usage"]["total_tokens"]) == ([], 4)


@pytest.mark.parametrize("last", [True, False])
def test_usage_so_far_stands_in_every_event_where_that_is_wanted(http: Http, last: bool) -> None:
    options = {"include_usage": last, "continuous_usage_stats": True}
    *pieces, _ = events(http.complete(prompt="ab", n=2, stream=True, stream_options=options))
    usages = [piece["usage"] for piece in pieces]
    assert {usage["prompt_tokens"] for usage in usages} == {2}
    counts = [usage["completion_tokens"] for usage in usages]
    assert counts == sorted(counts)
    assert (counts[0], counts[-1]) == (2, 4)
    assert all(usage["total_tokens"] == 2 + usage["completion_tokens"] for usage in usages)
    assert (pieces[-1]["choices"] == []) is last


def test_several_prompts_are_several_choices(http: Http) -> None:
    body = http.complete(prompt=[[1, 2], [3]], n=2).json()
    assert [(c["index"], c["text"]) for c in body["choices"]] == [
        (0, "<1><2>"),
        (1, "<1><2>"),
        (2, "<3>"),
        (3, "<3>"),
    ]
    assert (body["usage"]["prompt_tokens"], body["usage"]["completion_tokens"]) == (3, 6)


def test_parameters_arrive_as_they_were_said(http: Http) -> None:
    http.complete(
        prompt="a",
        max_tokens=5,
        min_tokens=2,
        temperature=0.5,
        top_p=0.9,
        top_k=-1,
        min_p=0.1,
        seed=-1,
        stop="END",
        stop_token_ids=[4],
        ignore_eos=True,
        include_stop_str_in_output=True,
        n=2,
    )
    (query,) = http.door.queries
    assert (query.ending.max_tokens, query.ending.min_tokens, query.choices) == (5, 2, 2)
    assert (query.ending.stop, query.ending.stop_token_ids) == (("END",), (4,))
    assert (query.ending.ignore_eos, query.ending.include_stop) == (True, True)
    sampling = query.sampling
    assert (sampling.temperature, sampling.top_p, sampling.min_p) == (0.5, 0.9, 0.1)
    assert (sampling.top_k, sampling.seed) == (0, 2**64 - 1)


def test_defaults_are_those_of_this_api(http: Http) -> None:
    http.complete(prompt="a")
    http.chat()
    completion, chat = http.door.queries
    assert (completion.sampling.temperature, completion.sampling.top_p) == (1.0, 1.0)
    assert completion.sampling.seed == 77
    assert completion.ending.max_tokens == 16
    assert chat.ending.max_tokens == 64 - len(chat.tokens)


def test_chat_content_may_come_in_parts(http: Http) -> None:
    parts = [{"type": "text", "text": "h"}, {"type": "text", "text": "i"}]
    assert http.chat(messages=[{"role": "user", "content": parts}]).status_code == 200
    assert http_ids(http)[1:-2] == bytes_of(http, "h\ni")


def test_operators_are_answered(http: Http) -> None:
    assert http.get("/v1/models").json()["data"][0]["id"] == "tiny"
    assert http.get("/v1/models/tiny").json()["max_model_len"] == 64
    assert http.get("/version").json()["protocol"] == 1
    assert http.get("/health").status_code == 200
    ready = {"ready": True, "draining": False, "verifiers": 1, "in_flight": 0}
    assert http.get("/ready").json() == ready | {"drafters": 0, "speculating": False}
    assert http.get("/ping").status_code == 200


def test_a_service_without_drafters_is_ready_and_says_that_nobody_drafts(tiny: Path) -> None:
    """Reported fault 13."""
    drafter = Member("drafter", "drafter-0", fingerprint=Fingerprint("f00d"), method="suffix")

    def told(status: Status) -> tuple[bool, int, bool]:
        response = Http(tiny, FakeDoor(status=status)).get("/ready")
        said = response.json()
        assert response.status_code == 200
        return said["ready"], said["drafters"], said["speculating"]

    assert told(READY) == (True, 0, False)
    assert told(replace(READY, members=(drafter,))) == (True, 1, True)
    assert told(replace(READY, members=(drafter,), draft_length=0)) == (True, 1, False)
