"""Forwards by bucket, with a recorder that replays what it ran: the logits are those of forwards without."""

import logging
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
import transformers

from engine.buckets import Buckets
from engine.config import EngineConfig
from engine.errors import EngineError
from engine.features import Features, Projection
from engine.graphs import GraphedEngine
from engine.pages import PagePool
from engine.runner import Engine, Row
from tests.engine.conftest import SHAPE
from verifier.loading import graphs


class Repeats:
    """A Recorder without a device: a replay is the same calls over the same buffers, chosen by nothing else."""

    def __init__(self) -> None:
        self.recorded = 0
        self.replays = 0

    @property
    def held(self) -> int:
        """As if each graph took as much as the one before."""
        return self.recorded << 30

    def record(self, run: Callable[[], None]) -> Callable[[], None]:
        run()
        self.recorded += 1

        def replay() -> None:
            self.replays += 1
            run()

        return replay


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    torch.manual_seed(0)
    made = tmp_path_factory.mktemp("graphed")
    shape = SHAPE | {"num_hidden_layers": 2}
    config = transformers.LlamaConfig(**shape)
    transformers.LlamaForCausalLM(config).save_pretrained(made)
    return made


def engine(folder: Path, *, spare: bool = True) -> Engine:
    config = EngineConfig(
        pages=32, page_size=4, max_context=64, dtype="float32", attention="triton", spare=spare
    )
    return Engine.load(folder, config)


def rows(pool: PagePool) -> Iterator[list[Row]]:
    """Steps of three requests whose windows differ, and one with a chunk of a prompt."""
    sequences = [pool.open([1] * 30) for _ in range(3)]
    for step, counts in enumerate([(5, 1, 3), (1, 1, 1), (2, 4, 1), (12, 1, 1), (3, 3, 2)]):
        made = []
        for each, count in zip(sequences, counts, strict=True):
            pool.reserve(each, each.computed + count)
            tokens = [(7 * step + 3 * place) % 101 for place in range(count)]
            wanted = 1 if count == 12 else count
            made.append(Row(tokens, each.computed, list(each.pages), wanted))
            each.computed += count
        yield made


def test_replayed_forwards_are_those_that_are_not(folder: Path) -> None:
    plain, recorder = engine(folder), Repeats()
    graphed = GraphedEngine(engine(folder), Buckets((4, 8, 12, 16)), rows=4, recorder=recorder)
    heard: list[tuple[int, int]] = []
    graphed.capture(lambda *each: heard.append(each))
    assert heard == [(0, 4), (1, 4), (2, 4), (3, 4), (4, 4)]
    for step in rows(PagePool(32, 4)):
        wanted = plain.forward(step).logits_NV
        found = graphed.forward(step).logits_NV
        torch.testing.assert_close(found, wanted, atol=1e-5, rtol=1e-5)
    assert recorder.recorded == 4
    assert recorder.replays == graphed.replayed == 4  # the chunk wants one logit of twelve


def test_features_of_replayed_tokens_are_kept_and_those_of_padding_are_nobody_s(
    folder: Path,
) -> None:
    kept = []
    for buckets in (None, Buckets((4, 8, 16))):
        made = engine(folder)
        torch.manual_seed(1)
        projection = Projection(torch.randn(16, 96))
        made.capture(Features((1, 2), 48, 33 * 4, "float32", projection))
        target: Engine | GraphedEngine = made
        if buckets:
            target = GraphedEngine(made, buckets, 4, Repeats())
            target.capture()
        for step in rows(PagePool(32, 4)):
            target.forward(step)
        assert made.features is not None
        kept.append(made.features.rows_QF[: 32 * 4])
    torch.testing.assert_close(kept[1], kept[0], atol=1e-5, rtol=1e-5)


def test_a_verifier_says_how_far_it_is_and_logs_what_graphs_took(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "verifier")
    heard: list[tuple[str, int, int]] = []
    graphed = graphs(engine(folder), Buckets((4, 8)), 4, Repeats(), lambda *far: heard.append(far))
    assert heard == [("graphs", 0, 2), ("graphs", 1, 2), ("graphs", 2, 2)]
    assert caplog.messages == ["graphs took 2.00 GiB"]
    graphed.forward([Row([1, 2, 3], 0, [0, 1], 3)])
    assert graphed.replayed == 1


def test_a_wrong_row_is_refused_before_it_is_replayed(folder: Path) -> None:
    graphed = GraphedEngine(engine(folder), Buckets((4,)), 4, Repeats())
    graphed.capture()
    with pytest.raises(EngineError, match="row 0 has the page 99, the pool has 32"):
        graphed.forward([Row([1], 0, [99], 1)])
    assert graphed.forward([Row([1] * 5, 0, [0, 1], 5)]).logits_NV.shape == (5, 101)
    assert graphed.replayed == 0


def test_graphs_need_a_page_for_padding(folder: Path) -> None:
    with pytest.raises(EngineError, match="a spare page for what pads them"):
        GraphedEngine(engine(folder, spare=False), Buckets((4,)), 4, Repeats())
