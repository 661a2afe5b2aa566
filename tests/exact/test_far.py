"""Acceptance has no cliff: not where a window of attention is full, nor at the end of a page, a chunk or a context."""

from pathlib import Path

import pytest

from drafter.config import DrafterConfig
from protocol.messages import Ending
from tests import architectures
from tests.cluster import Cluster

PROMPT = [7, 8, 9, 30, 41] * 3
OUTPUT = 90


@pytest.mark.parametrize("name", ["MistralForCausalLM", "Gemma3ForCausalLM"])
def test_a_drafter_with_the_targets_weights_is_right_at_every_length(
    tmp_path: Path, name: str
) -> None:
    """Both read a window of 12 tokens in some layers or all; a fault of mask or position there would reject guesses."""
    architectures.write(name, tmp_path)
    config = DrafterConfig(
        node_id="drafter-0", method="standalone", model=tmp_path, dtype="float32", overlap=False
    )
    cluster = Cluster(tmp_path, [config], draft_length=4, page_size=8, max_chunk=16, overlap=False)
    (said,) = cluster.generate([PROMPT], Ending(OUTPUT, ignore_eos=True))
    assert said.done
    wrong = [each for each in said.done.statistics.history if each[1] < each[0]]
    assert wrong == []
    assert said.done.statistics.accepted >= 0.4 * OUTPUT
