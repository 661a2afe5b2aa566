"""Rules that use laws, as processes: what is sampled over HTTP follows the target's law; a lossy rule says so."""

import json
from collections import Counter
from pathlib import Path
from typing import Any, Final

import httpx
import pytest
import yaml
from scipy.stats import chi2

from tests.e2e.service import Service, until, up
from tests.exact.test_sampled import LAW, chi_square, law_of_pairs
from tests.models import write_byte_llama

PROMPT: Final = [ord(letter) % 200 + 5 for letter in "one two three one two three one two"]
CHOICES: Final = 100


def configured(folder: Path, draft: Path, **verifier: Any) -> Path:
    """A folder whose `draftmesh.yaml` is the configuration."""
    text = yaml.safe_dump(
        {
            "method": "standalone",
            "draft": str(draft),
            "drafters": 1,
            "draft_length": 3,
            "dtype": "float32",
            "overlap": False,  # so small a target is too fast
            "verifier": verifier | {"planner": {"name": "fixed"}},
            "drafter": {"draft_sample_method": "probabilistic"},
        }
    )
    (folder / "draftmesh.yaml").write_text(text)
    return folder


def ask(service: Service, **body: Any) -> Any:  # noqa: ANN401
    asked = {"prompt": PROMPT, "ignore_eos": True, "temperature": LAW.temperature} | body
    answer = httpx.post(f"{service.url}/v1/completions", json=asked, timeout=60)
    assert answer.status_code == httpx.codes.OK, answer.text
    return answer.json()


def ask_for_pieces(service: Service, *, max_tokens: int, usage: bool) -> list[Any]:
    asked = {"prompt": PROMPT, "ignore_eos": True, "max_tokens": max_tokens}
    asked |= {"stream": True, "stream_options": {"include_usage": usage}}
    answer = httpx.post(f"{service.url}/v1/completions", json=asked, timeout=60)
    lines = [line.removeprefix("data: ") for line in answer.text.splitlines() if line]
    return [json.loads(line) for line in lines if line != "[DONE]"]


@pytest.mark.parametrize(
    ("rule", "requests"),
    [
        ("ratio", 6),
        pytest.param("ratio", 20, marks=pytest.mark.full),
        pytest.param("block", 20, marks=pytest.mark.full),
    ],
)
def test_what_is_sampled_over_http_follows_the_targets_law(
    tmp_path: Path, rule: str, requests: int
) -> None:
    (target := tmp_path / "target").mkdir()
    (draft := tmp_path / "draft").mkdir()
    model = write_byte_llama(target)
    write_byte_llama(draft, seed=8)
    pairs: Counter[tuple[int, int]] = Counter()
    drafted = 0
    with up(str(target), configured(tmp_path, draft, rule=rule)) as service:
        ask(service, max_tokens=24, seed=1)  # the drafter's first forward is a slow one
        for seed in range(requests):
            body = {"max_tokens": 4, "top_k": LAW.top_k, "n": CHOICES, "seed": seed}
            for choice in ask(service, return_token_ids=True, **body)["choices"]:
                first, second, *_ = choice["token_ids"]  # of four, so that the second is drafted
                pairs[first, second] += 1
                drafted += choice["draftmesh"]["drafted"]
    assert drafted > requests * CHOICES / 10
    law = law_of_pairs(model, PROMPT)
    assert set(pairs) <= set(law)
    statistic, freedom = chi_square(pairs, law, CHOICES * requests)
    assert statistic < chi2.isf(1e-4, freedom), f"{statistic} with {freedom} degrees of freedom"


def test_a_lossy_rule_says_so_in_answers_metrics_and_logs(tmp_path: Path) -> None:
    (target := tmp_path / "target").mkdir()
    write_byte_llama(target)
    folder = configured(tmp_path, target, rule="synthetic", synthetic={"length": 2.5})
    with up(str(target), folder) as service:
        answer = ask(service, max_tokens=30, seed=1)
        streams = [ask_for_pieces(service, max_tokens=9, usage=usage) for usage in (True, False)]
        counted = 'draftmesh_lossy_tokens_total{node="verifier-0",role="verifier",rule="synthetic"}'
        shown = f"{service.url}/metrics"
        until(lambda: counted in httpx.get(shown).text, "metrics tell of it", 20.0)
        assert service.state
        log = (Path(service.state.logs) / "verifier-0.log").read_text()
    label = "synthetic: drafts are kept by a curve of mean length 2.50"
    assert answer["lossy"].startswith(label)
    for pieces in streams:
        assert [piece["lossy"][: len(label)] for piece in pieces if "lossy" in piece] == [label]
    assert f"the output does not follow the target's law: {label}" in log


def test_what_does_not_go_together_is_refused_when_it_is_read(tmp_path: Path) -> None:
    folder = configured(tmp_path, tmp_path, rule="block")
    with (
        pytest.raises(AssertionError, match="keeps no more than"),
        up(str(tmp_path), folder, "--method", "suffix"),
    ):
        pass
