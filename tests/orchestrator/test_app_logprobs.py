"""Log-probabilities, echoed prompts and token ids, over a mesh side that repeats the prompt."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from orchestrator.front.messages import Failure
from protocol.messages import AnyMessage, Done, Emit, Scored, Submit
from tests.orchestrator.http_app import FakeDoor, Http, events


def ids(http: Http, text: str) -> list[int]:
    http.complete(prompt=text)
    return list(http.door.queries.pop().tokens)


def writes(*pieces: tuple[list[int], str], likely: float = -0.5) -> FakeDoor:
    """A verifier that says these tokens with this text, whatever it is asked."""

    def answer(submit: Submit) -> Iterable[AnyMessage | Failure]:
        prompt = tuple(Scored(-1.0) for _ in submit.tokens[1:])
        for number, (tokens, text) in enumerate(pieces):
            scores = tuple(Scored(likely, ((token, likely),)) for token in tokens)
            asked = submit.prompt_logprobs is not None and not number
            yield Emit(
                submit.request,
                0,
                tuple(tokens),
                text,
                (False,) * len(tokens),
                scores if submit.logprobs is not None else (),
                prompt if asked else (),
            )
        count = sum(len(tokens) for tokens, _ in pieces)
        yield Done(submit.request, 0, "stop", len(submit.tokens), count)

    return FakeDoor(answer)


def test_those_of_a_completion_are_four_lists(http: Http) -> None:
    a, b, c, d = ids(http, "abcd")
    logprobs = http.complete(prompt="ab", logprobs=2).json()["choices"][0]["logprobs"]
    assert logprobs == {
        "tokens": ["a", "b"],
        "token_logprobs": [-a / 2, -b / 2],
        "top_logprobs": [
            {"b": -1 / 8, "c": -2 / 8, "a": -a / 2},
            {"c": -1 / 8, "d": -2 / 8, "b": -b / 2},
        ],
        "text_offset": [2, 3],
    }
    assert (b, c, d) == (a + 1, a + 2, a + 3)


def test_with_none_beside_it_there_is_still_the_token_itself(http: Http) -> None:
    (a,) = ids(http, "a")
    logprobs = http.complete(prompt="a", logprobs=0).json()["choices"][0]["logprobs"]
    assert logprobs["top_logprobs"] == [{"a": -a / 2}]


def test_those_of_a_chat_are_objects_with_bytes(http: Http) -> None:
    answer = http.chat(logprobs=True, top_logprobs=1).json()
    first, *_, last = answer["choices"][0]["logprobs"]["content"]
    user = http.door.queries[-1].tokens[0]
    assert first == {
        "token": "<user>",
        "logprob": -user / 2,
        "bytes": list(b"<user>"),
        "top_logprobs": [
            {"token": "<assistant>", "logprob": -1 / 8, "bytes": list(b"<assistant>")}
        ],
    }
    assert (last["token"], last["bytes"]) == ("<assistant>", list(b"<assistant>"))
    assert answer["choices"][0]["logprobs"]["refusal"] is None


def test_only_who_asks_gets_them(http: Http) -> None:
    for body in ({}, {"logprobs": False}):
        assert http.chat(**body).json()["choices"][0]["logprobs"] is None
    bare = http.chat(logprobs=True).json()["choices"][0]["logprobs"]["content"]
    assert {len(entry["top_logprobs"]) for entry in bare} == {0}


def test_parts_of_a_character_are_told_by_their_bytes(http: Http, tiny: Path) -> None:
    """Three bytes of one character, then a letter: the text joins, and so do the bytes."""
    e, u, r, x = ids(http, "€x")
    door = writes(([e], ""), ([u, r, x], "€x"))
    completion = Http(tiny, door).complete(prompt="ab", logprobs=0).json()["choices"][0]
    assert completion["logprobs"]["tokens"] == ["bytes:\\xe2", "bytes:\\x82", "bytes:\\xac", "x"]
    assert completion["logprobs"]["text_offset"] == [2, 2, 2, 3]
    chat = Http(tiny, door).chat(logprobs=True).json()["choices"][0]
    content = chat["logprobs"]["content"]
    assert [entry["token"] for entry in content] == completion["logprobs"]["tokens"]
    assert bytes(byte for entry in content for byte in entry["bytes"]).decode() == "€x"
    assert chat["message"]["content"] == "€x"


def test_marks_for_the_model_have_a_score_but_no_place_in_the_text(http: Http, tiny: Path) -> None:
    (a,) = ids(http, "a")
    door = writes(([a, 2], "a"))
    logprobs = Http(tiny, door).complete(prompt="ab", logprobs=0).json()["choices"][0]["logprobs"]
    assert (logprobs["tokens"], logprobs["text_offset"]) == (["a", "</s>"], [2, 3])


def test_what_cannot_be_is_still_a_number(http: Http, tiny: Path) -> None:
    (a,) = ids(http, "a")
    door = writes(([a], "a"), likely=float("-inf"))
    answer = Http(tiny, door).complete(prompt="ab", logprobs=1).json()["choices"][0]["logprobs"]
    assert (answer["token_logprobs"], answer["top_logprobs"]) == ([-9999.0], [{"a": -9999.0}])


def test_two_tokens_with_the_same_text_are_one_entry_the_likelier(tiny: Path) -> None:
    def same(submit: Submit) -> Iterable[AnyMessage]:
        scored = Scored(-3.0, ((1000, -1.0), (1000, -2.0)))
        yield Emit(submit.request, 0, (1000,), "", (False,), (scored,))
        yield Done(submit.request, 0, "stop", 1, 1)

    answer = Http(tiny, FakeDoor(same)).complete(prompt="a", logprobs=2).json()
    assert answer["choices"][0]["logprobs"]["top_logprobs"] == [{"token_id:1000": -1.0}]


@pytest.mark.parametrize("kind", ["complete", "chat"])
def test_a_stream_joins_to_the_whole_of_it(http: Http, kind: str) -> None:
    body: dict[str, Any] = {"prompt": "some €", "logprobs": 2, "echo": True, "n": 2}
    if kind == "chat":
        body = {"logprobs": True, "top_logprobs": 2, "n": 2}
    ask = getattr(http, kind)
    whole = ask(**body, max_tokens=5).json()
    pieces = events(ask(**body, max_tokens=5, stream=True))[:-1]
    for choice in whole["choices"]:
        mine = [c for p in pieces for c in p["choices"] if c["index"] == choice["index"]]
        for name, entries in choice["logprobs"].items():
            joined = [x for c in mine if c["logprobs"] for x in c["logprobs"][name] or ()]
            assert joined == (entries or [])


# --- the prompt ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("prompt", ["h€y", "<s>h", " a", [1, 40, 2]])
def test_an_echoed_prompt_comes_first(http: Http, prompt: str | list[int]) -> None:
    plain = http.complete(prompt=prompt).json()["choices"][0]["text"]
    echoed = http.complete(prompt=prompt, echo=True).json()["choices"][0]
    shown = prompt if isinstance(prompt, str) else "<s>" + letter(http, 40) + "</s>"
    assert (echoed["text"], echoed["logprobs"]) == (shown + plain, None)


def letter(http: Http, token: int) -> str:
    logprobs = http.complete(prompt=[token], logprobs=0).json()["choices"][0]["logprobs"]
    text: str = logprobs["tokens"][0]
    return text


def test_an_echoed_prompt_has_scores_but_for_its_first_token(http: Http) -> None:
    e, u, r, x = ids(http, "€x")
    logprobs = http.complete(prompt="€x", echo=True, logprobs=1).json()["choices"][0]["logprobs"]
    assert logprobs["tokens"] == ["bytes:\\xe2", "bytes:\\x82", "bytes:\\xac", "x"] * 2
    assert logprobs["token_logprobs"][:4] == [None, -u / 2, -r / 2, -x / 2]
    assert logprobs["token_logprobs"][4:] == [-e / 2, -u / 2, -r / 2, -x / 2]
    assert logprobs["top_logprobs"][0] is None
    assert logprobs["top_logprobs"][3] == {"x": -x / 2, "y": -1 / 8}
    assert logprobs["text_offset"] == [0, 0, 0, 1, 2, 2, 2, 3]


def test_a_prompt_can_be_scored_without_an_output(http: Http, tiny: Path) -> None:
    answer = http.complete(prompt="ab", echo=True, logprobs=0, max_tokens=0).json()
    (choice,) = answer["choices"]
    assert (choice["text"], choice["finish_reason"]) == ("ab", "length")
    assert choice["logprobs"]["tokens"] == ["a", "b"]
    assert answer["usage"]["completion_tokens"] == 0
    assert answer["usage"]["total_tokens"] == 2
    assert answer["metrics"] == {"speculative_decoding": None}
    ended = Http(tiny, writes(([2], ""))).complete(prompt="ab", echo=True, max_tokens=0).json()
    assert (ended["choices"][0]["text"], ended["choices"][0]["finish_reason"]) == ("ab", "length")


def test_a_scored_prompt_streams_as_well(http: Http) -> None:
    body: dict[str, Any] = {"prompt": "ab", "echo": True, "logprobs": 0, "max_tokens": 0}
    first, last, done = events(http.complete(**body, stream=True))
    assert first["choices"][0]["text"] == "ab"
    assert last["choices"][0]["finish_reason"] == "length"
    assert done == "[DONE]"


def late(submit: Submit) -> Iterable[AnyMessage | Failure]:
    """The second choice is done before the prompt is scored, and the scores come in pieces."""
    yield Emit(submit.request, 1, (7,), "two", (False,), (Scored(-7.0),))
    yield Done(submit.request, 1, "length", 3, 1)
    yield Emit(submit.request, 0, (), "", prompt_logprobs=(Scored(-1.0),))
    yield Emit(submit.request, 0, (6,), "one", (False,), (Scored(-6.0),), (Scored(-2.0),))
    yield Done(submit.request, 0, "length", 3, 1)


def test_every_choice_waits_for_the_scores_of_its_prompt(tiny: Path) -> None:
    http = Http(tiny, FakeDoor(late))
    body: dict[str, Any] = {"prompt": "abc", "echo": True, "logprobs": 0, "n": 2}
    whole = http.complete(**body).json()
    assert [choice["text"] for choice in whole["choices"]] == ["abcone", "abctwo"]
    for number, choice in enumerate(whole["choices"], 6):
        assert choice["logprobs"]["token_logprobs"] == [None, -1.0, -2.0, -float(number)]
    pieces = events(http.complete(**body, stream=True))[:-1]
    texts = {0: "", 1: ""}
    for piece in pieces:
        for choice in piece["choices"]:
            texts[choice["index"]] += choice["text"]
    assert texts == {0: "abcone", 1: "abctwo"}


def test_scores_of_a_prompt_are_told_by_token_id(http: Http) -> None:
    a, b, c = ids(http, "abc")
    expected = [
        None,
        {
            str(b): {"logprob": -b / 2, "rank": None, "decoded_token": "b"},
            str(c): {"logprob": -1 / 8, "rank": 1, "decoded_token": "c"},
        },
    ]
    completion = http.complete(prompt=[a, b], prompt_logprobs=1).json()
    assert completion["choices"][0]["prompt_logprobs"] == expected
    chat = http.chat(prompt_logprobs=0).json()
    assert [len(entry or ()) for entry in chat["prompt_logprobs"]] == [0, 1, 1, 1, 1]


def test_token_ids_are_told_of_prompt_and_output(http: Http) -> None:
    body: dict[str, Any] = {"prompt": [7, 8, 9], "max_tokens": 2, "return_token_ids": True}
    choice = http.complete(**body, echo=True).json()["choices"][0]
    assert (choice["prompt_token_ids"], choice["token_ids"]) == ([7, 8, 9], [7, 8])
    pieces = events(http.complete(**body, stream=True))[:-1]
    told = [c.get("prompt_token_ids") for p in pieces for c in p["choices"]]
    assert told == [[7, 8, 9], None, None]
    chat = http.chat(return_token_ids=True).json()
    assert chat["prompt_token_ids"] == list(http.door.queries[-1].tokens)
    first, *others = events(http.chat(return_token_ids=True, stream=True))[:-1]
    assert first["prompt_token_ids"] == chat["prompt_token_ids"]
    assert not any("prompt_token_ids" in each for each in others)
