"""Drafters that know everything, from a file, or nothing."""

from itertools import pairwise
from pathlib import Path

import pytest

from drafter.config import DrafterConfig
from drafter.proposers import PROPOSERS, Proposal, Proposer
from drafter.proposers.scripted import ScriptError
from tests.drafter.stories import commit, guess, opened

SCRIPT = '{"default": [7, 8], "by_prompt": [{"prompt": [1, 2], "output": [3, 4, 5, 6]}]}'


def scripted(folder: Path, text: str = SCRIPT) -> Proposer:
    script = folder / "script.json"
    script.write_text(text)
    return PROPOSERS["scripted"](DrafterConfig(method="scripted", script=script))


def test_a_prompt_has_its_output_and_others_the_default(tmp_path: Path) -> None:
    proposer = scripted(tmp_path)
    wants = [(opened(proposer, [1, 2]), 3), (opened(proposer, [9]), 3)]
    assert proposer.propose(wants) == [
        Proposal((3, 4, 5), (1.0,) * 3),
        Proposal((7, 8), (1.0,) * 2),
    ]


def test_the_script_goes_on_by_position_whatever_was_committed(tmp_path: Path) -> None:
    proposer = scripted(tmp_path)
    mirror = opened(proposer, [1, 2])
    assert guess(proposer, mirror, 1) == [3]
    commit(proposer, mirror, [0, 0])
    assert guess(proposer, mirror, 9) == [5, 6]
    assert guess(proposer, mirror, 9) == []


def test_the_confidence_can_be_said(tmp_path: Path) -> None:
    proposer = scripted(tmp_path, '{"default": [7], "confidence": 0.25}')
    assert proposer.propose([(opened(proposer, [1]), 2)]) == [Proposal((7,), (0.25,))]


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("{", "script.json: Input data was truncated"),
        ('{"default": ["a"]}', r"Expected `int`, got `str` - at `\$.default\[0\]`"),
        ('{"defaults": []}', "unknown field `defaults`"),
        ('{"by_prompt": [{"prompt": [1]}]}', "missing required field `output`"),
    ],
)
def test_a_broken_script_is_refused_with_its_fault(tmp_path: Path, text: str, error: str) -> None:
    with pytest.raises(ScriptError, match=error):
        scripted(tmp_path, text)


def test_a_missing_script_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ScriptError, match="needs `script`"):
        PROPOSERS["scripted"](DrafterConfig())
    with pytest.raises(ScriptError, match="cannot be read: No such file"):
        PROPOSERS["scripted"](DrafterConfig(script=tmp_path / "none.json"))


def test_wrong_guesses_are_small_ids_that_never_repeat_and_are_the_same_each_time() -> None:
    proposer = PROPOSERS["wrong"](DrafterConfig())
    lines = [
        opened(proposer, prompt, output)
        for prompt, output in (((), ()), ((5,), ()), ((5,), (3, 4)))
    ]
    for mirror in lines:
        first = proposer.propose([(mirror, 40)])
        assert proposer.propose([(mirror, 40)]) == first
        tokens = guess(proposer, mirror, 40)
        assert set(tokens) <= set(range(16))
        said = [*mirror.prompt, *mirror.line]
        assert all(one != other for one, other in pairwise(said))
