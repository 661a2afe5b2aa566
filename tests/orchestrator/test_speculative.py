"""vLLM's `--speculative-config` on our command line."""

import json
from collections.abc import Mapping
from typing import Any

import pytest

from orchestrator.config import Config
from orchestrator.dotted import spelled
from orchestrator.settings import ConfigError, load
from orchestrator.speculative import merged, settings

KNOWN = "there is dflash, draft_model, dspark, eagle, eagle3, ngram, suffix"


def said(**keys: Any) -> Mapping[str, Any]:
    return settings(json.dumps(keys))


def refused(**keys: Any) -> str:
    with pytest.raises(ConfigError) as caught:
        said(**keys)
    return str(caught.value)


@pytest.mark.parametrize(
    ("keys", "ours"),
    [
        (
            {"method": "ngram", "num_speculative_tokens": 3, "prompt_lookup_max": 4},
            {
                "method": "ngram",
                "draft_length": 3,
                "drafter": {"ngram": {"min_match": 1, "max_match": 4}},
            },
        ),
        (
            {"method": "ngram", "model": "[ngram]", "prompt_lookup_min": 2, "prompt_lookup_max": 5},
            {"method": "ngram", "drafter": {"ngram": {"min_match": 2, "max_match": 5}}},
        ),
        (
            {"model": "small", "num_speculative_tokens": 5, "max_model_len": 512},
            {
                "method": "standalone",
                "draft": "small",
                "draft_length": 5,
                "drafter": {"context": 512},
            },
        ),
        ({"method": "draft_model"}, {"method": "standalone"}),
        (
            {"model": "small", "use_heterogeneous_vocab": True},
            {
                "method": "standalone",
                "draft": "small",
                "drafter": {"standalone": {"use_heterogeneous_vocab": True}},
            },
        ),
        (
            {"model": "small", "draft_sample_method": "probabilistic"},
            {
                "method": "standalone",
                "draft": "small",
                "verifier": {"rule": "ratio"},
                "drafter": {"draft_sample_method": "probabilistic"},
            },
        ),
        (
            {
                "method": "eagle3",
                "model": "head",
                "rejection_sample_method": "standard",
                "draft_sample_method": "greedy",
            },
            {"method": "eagle3", "draft": "head", "drafter": {"draft_sample_method": "greedy"}},
        ),
        (
            {
                "method": "dspark",
                "model": "head",
                "draft_sample_method": "probabilistic",
                "rejection_sample_method": "block",
            },
            {
                "method": "dspark",
                "draft": "head",
                "verifier": {"rule": "block"},
                "drafter": {"draft_sample_method": "probabilistic"},
            },
        ),
        (
            {
                "method": "suffix",
                "num_speculative_tokens": 3,
                "rejection_sample_method": "synthetic",
                "synthetic_acceptance_rates": [0.9, 0.5, 0.25],
            },
            {
                "method": "suffix",
                "draft_length": 3,
                "verifier": {"rule": "synthetic", "synthetic": {"rates": [0.9, 0.5, 0.25]}},
            },
        ),
        (
            {
                "method": "ngram",
                "rejection_sample_method": "synthetic",
                "synthetic_acceptance_length": 2.5,
            },
            {
                "method": "ngram",
                "verifier": {"rule": "synthetic", "synthetic": {"length": 2.5}},
            },
        ),
        (
            {"method": "eagle", "model": "head", "num_speculative_tokens": 3},
            {"method": "eagle3", "draft": "head", "draft_length": 3},
        ),
        (
            {
                "method": "suffix",
                "num_speculative_tokens": 32,
                "suffix_decoding_max_tree_depth": 24,
                "suffix_decoding_max_spec_factor": 1.5,
                "suffix_decoding_min_token_prob": 0.2,
                "suffix_decoding_max_cached_requests": 0,
            },
            {
                "method": "suffix",
                "draft_length": 32,
                "drafter": {
                    "suffix": {
                        "max_match": 24,
                        "factor": 1.5,
                        "offset": 0.0,
                        "min_probability": 0.2,
                        "store_tokens": 0,
                    }
                },
            },
        ),
    ],
)
def test_its_keys_have_names_here(keys: dict[str, Any], ours: dict[str, Any]) -> None:
    assert said(**keys) == ours
    assert Config.model_validate(ours).method == ours["method"]


def test_values_that_ask_for_nothing_are_no_fault() -> None:
    nothing = {"quantization": None, "draft_tensor_parallel_size": 1, "parallel_drafting": False}
    asked = {"rejection_sample_method": "standard", "synthetic_acceptance_length": None}
    assert said(method="suffix", prompt_lookup_max=None, **nothing, **asked) == {"method": "suffix"}


@pytest.mark.parametrize(
    ("keys", "sentence"),
    [
        ({}, "--speculative-config: method: it must be said, or a model"),
        (
            {"method": "medusa", "model": "x"},
            f"--speculative-config: method: 'medusa' is not supported; {KNOWN}",
        ),
        (
            {"method": "guess"},
            f"--speculative-config: method: 'guess' is no method; {KNOWN}",
        ),
        (
            {"method": "suffix", "quantization": "fp8"},
            "--speculative-config: quantization 'fp8' is not supported",
        ),
        (
            {"method": "suffix", "rejection_sample_method": "typical"},
            "--speculative-config: rejection_sample_method: "
            "Input should be 'standard', 'block' or 'synthetic'",
        ),
        (
            {"method": "suffix", "draft_sample_method": "beam"},
            "--speculative-config: draft_sample_method: "
            "Input should be 'greedy' or 'probabilistic'",
        ),
        (
            {"method": "suffix", "synthetic_acceptance_length": 2.0},
            "--speculative-config: synthetic_acceptance_length: "
            "only with rejection_sample_method synthetic",
        ),
        (
            {"method": "suffix", "synthetic_acceptance_rates": [0.5]},
            "--speculative-config: synthetic_acceptance_rates: "
            "only with rejection_sample_method synthetic",
        ),
        (
            {
                "method": "suffix",
                "rejection_sample_method": "synthetic",
                "synthetic_acceptance_rates": [1.5],
            },
            "--speculative-config: synthetic_acceptance_rates: 0: "
            "Input should be less than or equal to 1",
        ),
        (
            {"method": "suffix", "draft_tensor_parallel_size": True},
            "--speculative-config: draft_tensor_parallel_size True is not supported",
        ),
        (
            {"method": "suffix", "num_speculative_token": 3},
            "--speculative-config: there is no key 'num_speculative_token'; "
            "did you mean 'num_speculative_tokens'?",
        ),
        (
            {"method": "suffix", "num_speculative_tokens": 0},
            "--speculative-config: num_speculative_tokens: Input should be greater than or equal to 1",
        ),
        (
            {"method": "suffix", "prompt_lookup_max": 3},
            "--speculative-config: prompt_lookup_max: only with method ngram",
        ),
        (
            {"method": "ngram", "prompt_lookup_max": 3, "prompt_lookup_min": 4},
            "--speculative-config: prompt_lookup_min: it is more than prompt_lookup_max",
        ),
        (
            {"method": "ngram", "use_heterogeneous_vocab": True},
            "--speculative-config: use_heterogeneous_vocab: only with method draft_model",
        ),
        (
            {"method": "ngram", "model": "small"},
            "--speculative-config: model: ngram has none",
        ),
    ],
)
def test_what_is_not_supported_is_refused_by_name(keys: dict[str, Any], sentence: str) -> None:
    assert refused(**keys) == sentence


def test_a_store_that_counts_requests_says_what_counts_here() -> None:
    text = refused(method="suffix", suffix_decoding_max_cached_requests=100)
    assert "suffix_decoding_max_cached_requests: counts requests" in text
    assert "drafter.suffix.store_tokens" in text


@pytest.mark.parametrize("text", ["", "{", "[]", "3", "[" * 100_000])
def test_what_is_no_object_is_said_so(text: str) -> None:
    with pytest.raises(ConfigError, match="--speculative-config is no JSON"):
        settings(text)


def test_it_is_merged_with_what_else_was_said(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Any,  # noqa: ANN401
) -> None:
    monkeypatch.chdir(tmp_path)
    flags = {"port": 1, **said(method="ngram", prompt_lookup_max=4, num_speculative_tokens=2)}
    config = load(flags)
    assert (config.port, config.method, config.draft_length) == (1, "ngram", 2)
    assert config.drafter.ngram.max_match == 4


def test_what_is_said_twice_is_no_guess() -> None:
    with pytest.raises(ConfigError, match="--draft-length and --speculative-config say the same"):
        merged({"draft_length": 3}, ['{"method": "ngram", "num_speculative_tokens": 4}'])
    assert merged({"port": 1, "method": None}, ['{"method": "ngram"}']) == {
        "port": 1,
        "method": "ngram",
    }
    assert merged({"port": 1}, ()) == {"port": 1}
    with pytest.raises(ConfigError, match="--speculative-config: method is said twice"):
        merged({}, ['{"method": "ngram"}', '{"method": "suffix"}'])


def test_rules_and_curves_that_do_not_go_together_are_refused_like_ours(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Any,  # noqa: ANN401
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError, match="rule block with method ngram: keeps no more than"):
        load(said(method="ngram", rejection_sample_method="block"))
    with pytest.raises(ConfigError, match="needs either"):
        load(said(method="ngram", rejection_sample_method="synthetic"))
    rising = {"synthetic_acceptance_rates": [0.1, 0.2]}
    with pytest.raises(ConfigError, match="rise"):
        load(said(method="ngram", rejection_sample_method="synthetic", **rising))


DOT = "--speculative-config."


@pytest.mark.parametrize(
    "arguments",
    [
        [f"{DOT}method", "ngram", f"{DOT}num_speculative_tokens", "5"],
        [f"{DOT}method=ngram", f"{DOT}num_speculative_tokens=5"],
        ["--speculative-config", '{"method": "ngram"}', f"{DOT}num_speculative_tokens=5"],
    ],
)
def test_keys_may_be_said_one_by_one(arguments: list[str]) -> None:
    words = spelled(["up", *arguments, "--port", "1"])
    assert words[0] == "up"
    assert words[-2:] == ["--port", "1"]
    assert set(words[1:-2:2]) == {"--speculative-config"}
    assert settings(*words[2:-2:2]) == {"method": "ngram", "draft_length": 5}


@pytest.mark.parametrize(
    ("value", "meant"),
    [("5", 5), ("true", True), ("null", None), ("[0.5, 0.25]", [0.5, 0.25]), ("a/b=c", "a/b=c")],
)
def test_a_value_is_json_or_text(value: str, meant: object) -> None:
    [_, text] = spelled([f"{DOT}model={value}"])
    assert json.loads(text) == {"model": meant}


def test_other_words_stay_as_they_are() -> None:
    words = ["generate", "--speculative-config", "{}", f"{DOT}method"]
    assert spelled(words) == words
    assert spelled(["--", f"{DOT}a", "b"]) == ["--", f"{DOT}a", "b"]
    assert spelled([f"{DOT}a.b", "3"]) == ["--speculative-config", '{"a": {"b": 3}}']
