"""Declare-a-stop (reported faults 4, 8, 14), over HTTP.

The text without a stop is known from `transformers`. Then each of its positions is declared to be the stop: as a stop
token, as a text that spans two tokens, as the model's own end token. Text, token ids, log-probabilities, usage, finish
reason and counters must tell of one and the same cut, streamed or not, whatever was drafted beyond it.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import pytest
import torch
from transformers import PreTrainedTokenizerFast

from drafter.config import DrafterConfig
from tests.cluster import Cluster
from tests.exact.oracle import GAP, greedy
from tests.models import END, write_byte_llama
from tests.web import Json, Web

OUTPUT: Final = 20
POSITIONS: Final = range(18)
METHODS: Final = ("standalone", "scripted", "wrong")
DRAFT_LENGTHS: Final = (1, 4, 8)


@dataclass(frozen=True)
class Letters:
    """A target that writes printable letters, one a token, and what it answers to a prompt."""

    folder: Path
    prompt: list[int]
    tokens: list[int]
    text: str


@pytest.fixture(scope="module")
def letters(tmp_path_factory: pytest.TempPathFactory) -> Letters:
    folder = tmp_path_factory.mktemp("letters")
    model = write_byte_llama(folder)
    tokenizer = PreTrainedTokenizerFast.from_pretrained(str(folder))
    printable = [tokenizer.encode(chr(code))[0] for code in range(32, 127)]
    with torch.no_grad():
        faint = torch.ones(model.config.vocab_size, dtype=torch.bool)
        faint[printable] = False
        model.model.embed_tokens.weight[faint] *= 0.01  # hardly ever the likeliest
    model.save_pretrained(folder)
    for seed in range(200):
        prompt = tokenizer.encode(f"so {seed} and {seed}")
        answer = greedy(model, prompt, OUTPUT)
        text = tokenizer.decode(answer.tokens)
        if answer.gap > GAP and len(text) == OUTPUT and len(set(answer.tokens)) > OUTPUT - 4:
            return Letters(folder, prompt, answer.tokens, text)
    raise AssertionError("no prompt has a sure answer of many different letters")


def web(
    letters: Letters,
    method: str,
    draft_length: int,
    folder: Path,
    *,
    guesses: Sequence[int] = (),
    page_size: int = 16,
) -> Web:
    """A scripted drafter knows the text, or says `guesses` instead."""
    script = folder / "script.json"
    known = {"prompt": letters.prompt, "output": [*(guesses or letters.tokens), *[7] * 8]}
    script.write_text(json.dumps({"default": [], "by_prompt": [known]}))
    drafter = DrafterConfig(
        node_id="drafter-0",
        method=method,
        model=letters.folder,
        dtype="float32",
        script=script if method == "scripted" else None,
    )
    cluster = Cluster(
        letters.folder,
        [drafter],
        draft_length=draft_length,
        max_running=64,
        page_size=page_size,
        pages=4096 // page_size,
    )
    return Web(cluster, letters.folder, per_request_spec_decode_metrics="detailed")


@pytest.fixture(params=[(m, k) for m in METHODS for k in DRAFT_LENGTHS], ids=str)
def drafted(request: pytest.FixtureRequest, letters: Letters, tmp_path: Path) -> Iterator[Web]:
    """Whatever ends a request, nothing of it is left on either side."""
    method, draft_length = request.param
    one = web(letters, method, draft_length, tmp_path)
    yield one
    one.settle()


@dataclass(frozen=True)
class Cut:
    """What an answer must be: so many tokens of the known ones, and so much of their text."""

    tokens: int
    text: str
    finish: str = "stop"


def ask(letters: Letters, **more: Any) -> Json:
    return {
        "prompt": letters.prompt,
        "max_tokens": OUTPUT,
        "temperature": 0,
        "logprobs": 1,
        "return_token_ids": True,
        **more,
    }


def check(web: Web, letters: Letters, asked: list[Json], cuts: list[Cut]) -> None:
    """Every request, alone and streamed, beside all the others."""
    options = {"stream": True, "stream_options": {"include_usage": True}}
    responses = web.ask(*asked, *({**body, **options} for body in asked))
    whole = web.ask(ask(letters, ignore_eos=True))[0].json()["choices"][0]["logprobs"]
    for body, cut, response in zip(asked, cuts, responses, strict=False):
        answer = response.json()
        is_cut(letters, answer, cut, body)
        for name, entries in answer["choices"][0]["logprobs"].items():
            if name != "top_logprobs":
                assert entries == pytest.approx(whole[name][: cut.tokens], abs=1e-4), body
    for body, cut, response in zip(asked, cuts, responses[len(asked) :], strict=True):
        is_cut(letters, joined(response.text, cut), cut, body)


def is_cut(letters: Letters, answer: Json, cut: Cut, body: Json) -> None:
    (choice,) = answer["choices"]
    assert choice["text"] == cut.text, body
    assert choice["token_ids"] == letters.tokens[: cut.tokens], body
    assert choice["finish_reason"] == cut.finish, body
    assert len(choice["logprobs"]["tokens"]) == cut.tokens, body
    assert "".join(choice["logprobs"]["tokens"]) == letters.text[: cut.tokens], body
    assert answer["usage"]["completion_tokens"] == cut.tokens, body
    adds_up(answer)


def adds_up(answer: Json) -> None:
    """Reported fault 14."""
    counts = answer["choices"][0]["draftmesh"]
    emitted = answer["usage"]["completion_tokens"]
    told = answer["metrics"]["speculative_decoding"]
    longest = told["num_spec_tokens"]
    assert 0 <= counts["accepted"] <= counts["drafted"]
    assert 0 <= counts["accepted"] + counts["rounds"] - emitted <= longest  # the cut
    assert told["num_draft_tokens"] == counts["drafted"] == sum(told["per_step_drafted"])
    assert told["num_accepted_draft_tokens"] == counts["accepted"] == sum(told["per_step_accepted"])
    assert told["num_spec_steps"] == len(told["per_step_drafted"]) <= counts["rounds"]
    for drafted, accepted in zip(told["per_step_drafted"], told["per_step_accepted"], strict=True):
        assert 0 <= accepted <= drafted <= longest
        assert drafted
    assert sum(told["acceptance_histogram"]) == told["num_spec_steps"]
    assert 1 <= told["mean_acceptance_length"] <= longest + 1
    assert 0 <= told["draft_acceptance_rate"] <= 1


def joined(stream: str, cut: Cut) -> Json:
    """A stream as the whole that it adds up to; nothing behind the cut is ever said."""
    *pieces, done = [line.removeprefix("data: ") for line in stream.split("\n\n") if line]
    assert done == "[DONE]"
    *events, last = map(json.loads, pieces)
    choice: Json = {"text": "", "token_ids": [], "logprobs": {"tokens": []}}
    for (entry,) in (event["choices"] for event in events):
        assert "finish_reason" not in choice
        choice["text"] += entry["text"]
        assert cut.text.startswith(choice["text"])
        choice["token_ids"] += entry.get("token_ids", [])
        if entry["logprobs"]:
            choice["logprobs"]["tokens"] += entry["logprobs"]["tokens"]
        if entry["finish_reason"]:
            choice |= {name: entry[name] for name in ("finish_reason", "draftmesh")}
    return {"choices": [choice], "usage": last["usage"], "metrics": last["metrics"]}


def test_the_text_without_a_stop_is_the_oracles(drafted: Web, letters: Letters) -> None:
    asked = [ask(letters), ask(letters, max_tokens=3), ask(letters, max_tokens=1)]
    check(
        drafted,
        letters,
        asked,
        [Cut(count, letters.text[:count], "length") for count in (OUTPUT, 3, 1)],
    )
    last = drafted.ask(ask(letters))[0].json()["metrics"]["speculative_decoding"]
    wrong = drafted.cluster.configs["drafter-0"].method == "wrong"
    assert last["num_draft_tokens"] > 0
    assert last["draft_acceptance_rate"] == (0 if wrong else 1)


def test_a_stop_token_at_every_position(drafted: Web, letters: Letters) -> None:
    asked, cuts = [], []
    for place in POSITIONS:
        token = letters.tokens[place]
        found = letters.tokens.index(token)
        for include in (False, True):
            asked.append(
                ask(letters, stop_token_ids=[token, 3], include_stop_str_in_output=include)
            )
            cuts.append(Cut(found + 1, letters.text[: found + include]))
    check(drafted, letters, asked, cuts)


def test_a_stop_text_across_two_tokens_at_every_position(drafted: Web, letters: Letters) -> None:
    asked, cuts = [], []
    for place in POSITIONS:
        stop = letters.text[place : place + 2]
        found = letters.text.index(stop)
        for include in (False, True):
            stops = [letters.text[-1] * 5, stop]  # the first never comes, and is longer
            asked.append(ask(letters, stop=stops, include_stop_str_in_output=include))
            cuts.append(Cut(found + 2, letters.text[: found + 2 * include]))
    check(drafted, letters, asked, cuts)


def test_an_end_token_at_every_position(drafted: Web, letters: Letters) -> None:
    admission = drafted.cluster.core.fronts._admission
    for place in POSITIONS:
        token = letters.tokens[place]
        found = letters.tokens.index(token)
        drafted.cluster.core.fronts._admission = replace(admission, end_tokens=frozenset({token}))
        check(
            drafted,
            letters,
            [ask(letters), ask(letters, ignore_eos=True)],
            [Cut(found + 1, letters.text[:found]), Cut(OUTPUT, letters.text, "length")],
        )


def test_the_length_meets_the_stop(drafted: Web, letters: Letters) -> None:
    """A stop that the last token completes is a stop; one that the length cuts through is none, and is shown."""
    asked, cuts = [], []
    for place in POSITIONS:
        stop = letters.text[place : place + 2]
        found = letters.text.index(stop)
        asked.append(ask(letters, stop=stop, max_tokens=found + 2))
        cuts.append(Cut(found + 2, letters.text[:found]))
        asked.append(ask(letters, stop=stop, max_tokens=found + 1))
        cuts.append(Cut(found + 1, letters.text[: found + 1], "length"))
    check(drafted, letters, asked, cuts)


def test_nothing_ends_before_the_least_length(drafted: Web, letters: Letters) -> None:
    stops = [letters.text[place] for place in (2, 3)]
    least = 12
    found = min(letters.text.find(stop, least - 1) % (2 * OUTPUT) for stop in stops)
    cut = Cut(OUTPUT, letters.text, "length")
    if found < OUTPUT:
        cut = Cut(found + 1, letters.text[:found])
    check(drafted, letters, [ask(letters, stop=stops, min_tokens=least)], [cut])


@pytest.mark.parametrize("draft_length", DRAFT_LENGTHS)
def test_an_end_that_is_drafted_and_rejected_has_no_effect(
    letters: Letters, draft_length: int, tmp_path: Path
) -> None:
    """The mirror image of fault 8: the drafter says everywhere that the text is over."""
    ends = [END, ord("Z")] * OUTPUT
    drafted = web(letters, "scripted", draft_length, tmp_path, guesses=ends)
    check(
        drafted,
        letters,
        [ask(letters), ask(letters, stop_token_ids=[END, 3])],
        [Cut(OUTPUT, letters.text, "length")] * 2,
    )
    drafted.settle()


@pytest.mark.parametrize("method", ["standalone", "scripted"])
def test_no_cache_holds_anything_behind_the_cut(
    letters: Letters, method: str, tmp_path: Path
) -> None:
    """With pages of one token, whoever asks for more of the text finds what was committed and no more."""
    for place in (2, 5, 9):
        drafted = web(letters, method, 8, tmp_path, page_size=1)
        stop = letters.text[place : place + 2]
        end = letters.text.index(stop) + 2
        drafted.ask(ask(letters, stop=stop))
        drafted.settle()
        line = [*letters.prompt, *letters.tokens]
        more = drafted.ask(ask(letters, prompt=line, max_tokens=1))[0].json()
        known = more["usage"]["prompt_tokens_details"]["cached_tokens"]
        assert known == len(letters.prompt) + end - 1  # the last token was never computed
