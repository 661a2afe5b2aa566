"""KV in numbers of one byte: rounded as torch rounds, read as they are, and the same text with drafts as without."""

from pathlib import Path
from typing import Any, Final

import pytest
import torch
import transformers

from drafter.config import DrafterConfig
from engine.attention_triton import TritonAttention
from engine.config import EngineConfig, Implementation, KvDtype
from engine.pages import PagePool
from engine.runner import Engine
from protocol.messages import Ending
from tests.cluster import Cluster
from tests.contracts.attention import config, dealt, expected, model
from tests.engine.conftest import SHAPE, Story
from tests.models import write_byte_llama
from verifier.handing import layout_of

KINDS: Final[dict[KvDtype, torch.dtype]] = {
    "fp8": torch.float8_e4m3fn,
    "fp8_e5m2": torch.float8_e5m2,
}


def rounded(x: torch.Tensor, kind: torch.dtype) -> torch.Tensor:
    """As torch does it, beyond the largest number that one."""
    largest = torch.finfo(kind).max
    return x.float().clamp(-largest, largest).to(kind)


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_what_is_stored_is_rounded_to_the_nearest_ties_to_even(
    kind: torch.dtype, dtype: torch.dtype
) -> None:
    """Every number there is, what lies halfway between two of them, what is beyond them, and any others."""
    torch.manual_seed(0)
    every = torch.arange(256, dtype=torch.uint8).view(kind).float()
    every = every[every.isfinite()].sort().values
    odd = torch.cat((every, (every[1:] + every[:-1]) / 2, torch.tensor([1e6, -1e6, 3e38])))
    x_TXD = torch.cat((odd, torch.randn(4096 - len(odd)) * 10)).view(64, 4, 16).to(dtype)
    rows, pages = dealt([(64, 0)])
    kv = torch.zeros(pages, 4, 2, 1, 16, dtype=kind)
    slots_T = torch.tensor([rows[0].pages[i // 4] * 4 + i % 4 for i in range(64)])
    still = torch.ones(64, 1, 16, dtype=dtype), torch.zeros(64, 1, 16, dtype=dtype)
    attend = TritonAttention(model(2, 1, 16), config("triton", pages)).prepare(rows)
    for place in (0, 2):  # as the queries are not kept, both halves take their turn
        kv.view(torch.uint8).zero_()
        qkv_TXD = torch.cat((x_TXD[:, :2], x_TXD[:, place : place + 2]), 1)
        attend.store(qkv_TXD, *still, slots_T, kv)
        kept = kv.view(torch.uint8).view(-1, 2, 16)[slots_T].view(kind)
        assert torch.equal(kept.float(), rounded(x_TXD[:, place : place + 2], kind).float())


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_attention_over_such_numbers(kind: torch.dtype) -> None:
    torch.manual_seed(1)
    rows, pages = dealt([(5, 11), (1, 40), (3, 0)])
    kv = rounded(torch.randn(pages, 4, 2, 2, 32), kind)
    q = torch.randn(9, 8, 32)
    ours = TritonAttention(model(8, 2, 32), config("triton", pages)).prepare(rows)(q, kv)
    torch.testing.assert_close(ours.double(), expected(q, kv.float(), rows), atol=2e-5, rtol=2e-5)


class RoundedCache(transformers.DynamicCache):  # type: ignore[misc]  # transformers has no types
    """What `transformers` attends over, in double precision: keys and values as short numbers."""

    def __init__(self, kind: torch.dtype) -> None:
        super().__init__()
        self._kind = kind

    def update(
        self, k: torch.Tensor, v: torch.Tensor, layer_idx: int, **more: object
    ) -> tuple[torch.Tensor, torch.Tensor]:
        short = [rounded(each, self._kind).double() for each in (k, v)]
        held: tuple[torch.Tensor, torch.Tensor] = super().update(*short, layer_idx, **more)
        return held


@pytest.fixture(scope="module")
def llama(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Any]:
    torch.manual_seed(3)
    folder = tmp_path_factory.mktemp("llama")
    made = transformers.LlamaForCausalLM(transformers.LlamaConfig(**SHAPE)).eval()
    made.save_pretrained(folder)
    return folder, made.double()


@pytest.mark.parametrize("kv_dtype", KINDS)
@pytest.mark.parametrize("implementation", ["auto", "transformers"])
def test_logits_are_those_of_a_model_whose_keys_and_values_are_rounded(
    llama: tuple[Path, Any], kv_dtype: KvDtype, implementation: Implementation
) -> None:
    folder, reference = llama
    settings = EngineConfig(
        pages=16, page_size=4, max_context=64, dtype="float32", attention="triton",
        kv_dtype=kv_dtype, implementation=implementation,
    )  # fmt: skip
    engine = Engine.load(folder, settings)
    pool = PagePool(16, 4)
    story = Story(engine, pool, pool.open([1] * 30))
    tokens = [(7 * place) % 101 for place in range(30)]
    found = torch.cat([story.feed(tokens[:12]), story.feed(tokens[12:13]), story.feed(tokens[13:])])
    with torch.no_grad():
        exact = reference(torch.tensor([tokens])).logits[0]
        cache = RoundedCache(KINDS[kv_dtype])
        wanted = reference(torch.tensor([tokens]), cache=cache).logits[0]
    off, lost = (float((each - wanted).abs().max()) for each in (found.double(), exact))
    assert off < lost / 100, "what is left is float32's"
    layout = layout_of(engine, "w")
    assert {layer.dtype for layer in layout.layers} == {engine.config.kv_numbers}
    assert layout.slot_bytes * 4 == engine.bytes_per_page == 4 * 3 * 2 * 2 * 16


def test_drafts_do_not_change_the_text(tmp_path: Path) -> None:
    """Of a drafter that guesses as the target would without rounding, and of one that is never right."""
    write_byte_llama(tmp_path)
    prompts = [list(b"abcabcabcabc"), list(b"what is what is")]
    said, counted = {}, {}
    for method in ("", "standalone", "wrong"):
        drafter = DrafterConfig(
            node_id="d", method=method or "wrong", model=tmp_path, dtype="float32"
        )
        made = Cluster(
            tmp_path, [drafter] if method else [], draft_length=3, pages=32, page_size=8,
            attention="triton", kv_dtype="fp8",
        )  # fmt: skip
        said[method] = [each.tokens for each in made.generate(prompts, Ending(10))]
        counted[method] = made.core.facts().counters
    assert said["standalone"] == said["wrong"] == said[""]
    assert counted["standalone"]["accepted_tokens"][""] > 4
    assert counted["wrong"]["draft_tokens"][""] > 4
