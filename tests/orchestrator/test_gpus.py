"""GPUs of a service by role: who sits where, and with how much of it."""

from pathlib import Path

import pytest
from pydantic import ValidationError

from orchestrator.config import Config
from orchestrator.gpus import GpusConfig, Seat, seats
from orchestrator.launch.plan import children, spare


def test_roles_on_their_own_gpus_have_them_whole() -> None:
    found = seats(GpusConfig(verifier=(0,), drafter=(1, 2)), {"verifier": 1, "drafter": 3})
    assert found["verifier", 0] == Seat((0,), 0.95)
    assert found["drafter", 1] == Seat((2,), 0.95)
    assert found["drafter", 0] == found["drafter", 2] == Seat((1,), 0.475)


def test_who_shares_a_gpu_has_the_stated_share_or_what_others_leave() -> None:
    config = GpusConfig(verifier=(0,), drafter=(0,), verifier_share=0.65)
    found = seats(config, {"verifier": 1, "drafter": 2})
    assert found["verifier", 0].share == 0.65
    assert found["drafter", 0].share == found["drafter", 1].share == pytest.approx(0.15)


def test_ranks_have_a_gpu_each() -> None:
    config = GpusConfig(verifier=(0, 1, 2, 3), drafter=(3,), drafter_share=0.25)
    found = seats(config, {"verifier": 2, "drafter": 1}, {"verifier": 2})
    assert found["verifier", 0] == Seat((0, 1), 0.95)
    assert found["verifier", 1].share == pytest.approx(0.7), "what is left of the fuller one"
    assert found["verifier", 1].environment == {"CUDA_VISIBLE_DEVICES": "2,3"}
    with pytest.raises(ValueError, match=r"gpus\.verifier has 1 of the 2 GPUs that 2 ranks take"):
        seats(GpusConfig(verifier=(0,)), {"verifier": 1}, {"verifier": 2})


def test_ranks_on_machines_of_their_own_see_one_gpu() -> None:
    parts = {"verifier": {"tensor_parallel": 2, "ranks": "apart"}, "gpus": {"verifier": [0]}}
    config = Config.model_validate(parts)
    assert config.seats()["verifier", 0].gpus == (0,)


@pytest.mark.parametrize(
    ("config", "text"),
    [
        (
            GpusConfig(verifier=(3,), drafter=(3,), verifier_share=0.7, drafter_share=0.4),
            r"GPU 3 is shared by verifier-0, drafter-0: stated shares come to 110% of it$",
        ),
        (
            GpusConfig(verifier=(0,), drafter=(0,), verifier_share=0.95),
            r"come to 95% of it, and 1 more have none left",
        ),
    ],
)
def test_more_than_a_gpu_is_refused_with_the_numbers(config: GpusConfig, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        seats(config, {"verifier": 1, "drafter": 1})


def test_processes_see_their_gpu_alone() -> None:
    config = Config(
        method="standalone",
        drafters=2,
        gpus=GpusConfig(verifier=(1,), drafter=(0, 1), drafter_share=0.3),
    )
    made = {child.name: child for child in children(config, Path("t"), Path("d"), 4)}
    assert made["verifier-0"].environment["CUDA_VISIBLE_DEVICES"] == "1"
    assert made["verifier-0"].config.device == "cuda"  # type: ignore[union-attr]
    assert made["verifier-0"].config.gpu_share == pytest.approx(0.65)  # type: ignore[union-attr]
    assert made["drafter-0"].environment["CUDA_VISIBLE_DEVICES"] == "0"
    assert made["drafter-1"].environment["CUDA_VISIBLE_DEVICES"] == "1"
    assert "CUDA_VISIBLE_DEVICES" not in made["front-0"].environment
    more = spare(config, Path("t"), Path("d"), 4)(2)
    assert more is not None
    assert more.environment["CUDA_VISIBLE_DEVICES"] == "0"


def test_without_gpus_nothing_is_said_of_devices() -> None:
    made = children(Config(), Path("t"), None, 4)
    assert all("CUDA_VISIBLE_DEVICES" not in child.environment for child in made)
    assert all(getattr(child.config, "device", "cpu") == "cpu" for child in made)


def test_methods_without_a_model_on_gpus_are_refused_there() -> None:
    with pytest.raises(ValidationError, match="method suffix computes on the CPU; standalone"):
        Config(method="suffix", gpus=GpusConfig(drafter=(0,)))
