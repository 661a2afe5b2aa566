"""What the engine refuses, and that refusing changes nothing."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from engine.config import EngineConfig, Implementation, kv_numbers
from engine.errors import EngineError
from engine.memory import claim
from engine.models.config import ModelConfig
from engine.runner import Engine, Row, bytes_per_page, pages_for
from tests.engine.test_models import Make

PAGES = [0, 1, 2, 3]
GOOD = Row([5, 6, 7], 2, PAGES, 3)


@pytest.mark.parametrize(
    ("row", "complaint"),
    [
        (Row([], 0, PAGES, 0), "row 1 has no tokens"),
        (Row([5, 101], 0, PAGES, 1), "row 1 has the token 101, the vocabulary has 101"),
        (Row([-1, 5], 0, PAGES, 1), "row 1 has the token -1"),
        (Row([5], -1, PAGES, 1), "row 1 starts at -1"),
        (Row([5] * 4, 29, [*PAGES] * 3, 1), "row 1 ends at 33, max_context is 32"),
        (Row([5] * 3, 14, PAGES, 1), "row 1 ends at 17, its 4 pages cover 16"),
        (Row([5], 0, [8], 1), "row 1 has the page 8, the pool has 8"),
        (Row([5], 0, [-1], 1), "row 1 has the page -1"),
        (Row([5], 0, PAGES, 2), "row 1 wants 2 logits of 1 tokens"),
        (Row([5], 0, PAGES, -1), "row 1 wants -1 logits"),
    ],
)
def test_a_bad_row_is_named_before_anything_is_written(
    tiny: Make, row: Row, complaint: str
) -> None:
    engine = tiny("llama").engine(pages=8, max_context=32)
    with pytest.raises(EngineError, match=complaint):
        engine.forward([GOOD, row])
    assert not any(kv.any() for kv in engine.kv)
    engine.forward([GOOD])
    assert all(kv.any() for kv in engine.kv)


def test_a_hidden_state_that_does_not_exist(tiny: Make) -> None:
    with pytest.raises(EngineError, match="hidden state 5 does not exist, the last is 4"):
        tiny("llama").engine().forward([GOOD], hidden=(0, 5))


def test_no_rows_are_no_forward(tiny: Make) -> None:
    with pytest.raises(EngineError, match="no rows"):
        tiny("llama").engine().forward([])


def test_only_the_slots_of_new_tokens_are_written(tiny: Make) -> None:
    engine = tiny("llama").engine(pages=8)
    engine.forward([Row([5, 6, 7], 2, [6, 1], 0)])
    for kv in engine.kv:
        written = kv.flatten(2).any(-1).flatten().nonzero().flatten().tolist()
        assert written == [4, 6 * 4 + 2, 6 * 4 + 3]


@pytest.mark.parametrize("implementation", ["auto", "transformers"])
def test_a_layer_is_told_of_when_it_is_in_the_pages(
    tiny: Make, implementation: Implementation
) -> None:
    """Its own KV and that of all layers before it, as it is when the forward is over."""
    settings = EngineConfig(
        pages=8, max_context=32, dtype="float32", page_size=4, implementation=implementation
    )
    engine = Engine.load(tiny("llama").folder, settings)
    seen: dict[int, list[torch.Tensor]] = {}

    def reached(layers: int) -> None:
        seen[layers] = [kv.clone() for kv in engine.kv]

    engine.forward([Row([5, 6, 7], 2, [6, 1], 1)], reached=reached)
    assert list(seen) == list(range(1, engine.model.layers + 1))
    for layers, then in seen.items():
        for layer, kv in enumerate(engine.kv):
            assert torch.equal(then[layer], kv) is (layer < layers)


def test_memory_is_counted_as_it_is_taken(tiny: Make) -> None:
    engine = tiny("llama").engine(pages=8)
    taken = sum(kv.nbytes for kv in engine.kv)
    assert engine.bytes_per_page * 8 == taken
    assert bytes_per_page(engine.model, 4, "bfloat16") * 16 == taken
    assert pages_for(taken + 1, engine.model, 4, "float32") == 8
    assert bytes_per_page(engine.model, 4, kv_numbers("fp8", "bfloat16")) * 32 == taken


def config_file(folder: Path, **changes: Any) -> Path:  # it is JSON
    source = json.loads((folder / "config.json").read_text()) | changes
    return_to = folder.parent / f"{folder.name}-{'-'.join(changes)}"
    return_to.mkdir(exist_ok=True)
    (return_to / "config.json").write_text(json.dumps(source))
    return return_to


@pytest.mark.parametrize(
    ("name", "changes", "complaint"),
    [
        ("llama-dynamic", {"max_position_embeddings": 100}, "128 exceeds the 100 positions"),
        (
            "llama",
            {"architectures": ["LlamaForRewards"]},
            "LlamaForRewards is not served: it is no causal",
        ),
    ],
)
def test_a_model_that_would_be_computed_wrongly(
    tiny: Make, name: str, changes: dict[str, object], complaint: str
) -> None:
    folder = config_file(tiny(name).folder, **changes)
    with pytest.raises(EngineError, match=complaint):
        Engine.load(folder, EngineConfig(pages=8, max_context=128))


def test_end_tokens_come_from_both_files(tiny: Make) -> None:
    folder = config_file(tiny("llama").folder, eos_token_id=2)
    (folder / "generation_config.json").write_text(json.dumps({"eos_token_id": [7, 2]}))
    assert ModelConfig.read(folder).eos_ids == (2, 7)


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        (
            {"attention": "magic"},
            "attention magic does not exist, only auto, sdpa, triton, flashinfer",
        ),
        ({"attention": "triton"}, "Triton's kernels run on a CUDA device, not on cpu"),
        ({"device": "cuda:7"}, "device cuda:7 is not there: there are 0 CUDA devices"),
        ({"device": "cuda:x"}, "device cuda:x is not served, only cpu, cuda and cuda:N"),
        ({"device": "tpu"}, "device tpu is not served, only cpu"),
        ({"kv_dtype": "fp8"}, "kv_dtype fp8 needs attention triton; on cpu it is sdpa"),
    ],
)
def test_settings_that_do_not_exist(tiny: Make, changes: Any, complaint: str) -> None:  # noqa: ANN401
    config = EngineConfig(**({"pages": 8, "max_context": 32, "dtype": "float32"} | changes))
    with pytest.raises(EngineError, match=complaint):
        Engine.load(tiny("llama").folder, config)


def test_a_folder_that_is_no_checkpoint(tmp_path: Path) -> None:
    with pytest.raises(EngineError, match=r"no checkpoint: it has no config\.json"):
        Engine.load(tmp_path, EngineConfig(pages=8, max_context=32))


def test_tables_and_pages_do_not_load_torch() -> None:
    modules = "engine.pages, engine.config, engine.models, engine.attention, engine.batch"
    code = f"import sys, {modules}; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_results_may_be_changed_by_their_owner(tiny: Make) -> None:
    logits = tiny("llama").engine().forward([GOOD]).logits_NV
    logits[0, 5] = -torch.inf
    assert logits[0, 5] == -torch.inf


@pytest.mark.parametrize(("device", "index"), [("cuda", 0), ("cuda:1", 1)])
def test_a_share_of_a_gpu_is_claimed_on_the_one_that_is_computed_on(
    monkeypatch: pytest.MonkeyPatch, device: str, index: int
) -> None:
    """By number: torch takes no bare `cuda` for a share, and events belong to the current device."""
    said: list[tuple[object, ...]] = []
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "set_device", lambda *one: said.append(one))
    monkeypatch.setattr(
        torch.cuda, "set_per_process_memory_fraction", lambda *two: said.append(two)
    )
    claim(device, 0.5)
    claim("cpu", 0.5)
    assert said == [(index,), (0.5, index)]


def test_logits_that_are_overwritten_are_those_that_are_not(tiny: Make) -> None:
    """Two steps in turn, as a verifier on a CPU runs them, in bfloat16."""
    texts = [[5, 6, 7], [9, 2], [4, 4, 8, 1]]
    said = []
    for overwritten in (0, 8):
        engine = tiny("llama").engine(dtype="bfloat16", overwritten=overwritten)
        said.append(
            [engine.forward([Row(each, 0, PAGES, len(each))]).logits_NV.clone() for each in texts]
        )
    assert all(torch.equal(one, other) for one, other in zip(*said, strict=True))


def test_what_a_serving_mode_made_is_written_outside_of_it(tiny: Make) -> None:
    engine = tiny("llama").engine(dtype="bfloat16", overwritten=8)
    with torch.inference_mode():
        engine.forward([GOOD])
    assert engine.forward([GOOD]).logits_NV.isfinite().all()
