"""Models that run through the modules of transformers compute what transformers computes, however a text is cut."""

import copy
from collections.abc import Callable
from functools import cache
from typing import Any

import pytest
import torch

from engine.config import EngineConfig, Implementation
from engine.models import ARCHITECTURES, architecture
from engine.models.config import ModelConfig
from engine.models.hosted import Hosted
from engine.models.llama import Llama
from engine.pages import PagePool
from engine.runner import Engine, Row
from tests.architectures import HOSTED, write
from tests.engine.conftest import ATTENTION, Story, Tiny
from tests.engine.test_models import close

Make = Callable[[str], Tiny]
TEXT = [5, 93, 17, 17, 64, 8, 100, 3, 42, 29, 71, 55, 12, 88, 6, 31, 77, 20, 9, 60, 44, 1, 7]
OTHER = [TEXT[0], *TEXT[:0:-1], 11, 12]


@pytest.fixture(scope="module")
def hosted(tmp_path_factory: pytest.TempPathFactory) -> Make:
    @cache
    def make(name: str) -> Tiny:
        folder = tmp_path_factory.mktemp(name)
        return Tiny(folder, write(name, folder))

    return make


def engine(model: Tiny, implementation: Implementation = "transformers", **changes: Any) -> Engine:
    settings: dict[str, Any] = {
        "pages": 48, "page_size": 4, "max_context": 128, "dtype": "float32", "attention": ATTENTION,
    }  # fmt: skip
    return Engine.load(
        model.folder, EngineConfig(**(settings | changes), implementation=implementation)
    )


def begin(made: Engine, text: list[int]) -> Story:
    pool = PagePool(48, 4)
    return Story(made, pool, pool.open(text))


@pytest.mark.parametrize("name", HOSTED)
def test_chunks_windows_and_neighbours(hosted: Make, name: str) -> None:
    """A prompt in two chunks beside another, then a window that is taken back, then single tokens."""
    made, pool = engine(hosted(name)), PagePool(48, 4)
    assert isinstance(made.decoder, Hosted)
    one, two = (Story(made, pool, pool.open(text)) for text in (TEXT, OTHER))
    expected, other = hosted(name).logits(TEXT), hosted(name).logits(OTHER)
    close(one.feed(TEXT[:7]), expected[:7])
    rows = [two.row(OTHER[:20]), one.row(TEXT[7:15], logits=3)]
    close(made.forward(rows).logits_NV, torch.cat((other[:20], expected[12:15])))
    one.feed([TEXT[15], 99, 98, 97, 96])
    one.back_to(16)
    rows = [one.row(TEXT[16:22]), two.row(OTHER[20:21], logits=0), one.row(TEXT[22:])]
    close(made.forward(rows).logits_NV, expected[16:])
    close(two.feed(OTHER[21:]), other[21:])


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_both_implementations_agree(hosted: Make, name: str) -> None:
    lean, through = engine(hosted(name), "auto"), engine(hosted(name))
    assert isinstance(lean.decoder, Llama)
    assert isinstance(through.decoder, Hosted)
    for start, end in [(0, 9), (9, 10), (10, 23)]:
        row = Row(TEXT[start:end], start, list(range(6)), end - start)
        ours, theirs = (each.forward([row], hidden=(0, 2, 3)) for each in (lean, through))
        close(ours.logits_NV, theirs.logits_NV)
        for state in (0, 2, 3):
            close(ours.hidden[state], theirs.hidden[state])
    for one, other in zip(lean.kv, through.kv, strict=True):
        close(one, other)


@pytest.mark.parametrize("name", ["GPT2LMHeadModel", "Gemma2ForCausalLM", "MixtralForCausalLM"])
def test_hidden_states_are_what_the_blocks_leave(hosted: Make, name: str) -> None:
    model = hosted(name)
    story = begin(engine(model), TEXT)
    ours = story.engine.forward([story.row(TEXT, logits=0)], hidden=(0, 1, 3))
    with torch.no_grad():
        theirs = model.reference(torch.tensor([TEXT]), output_hidden_states=True).hidden_states
    assert list(ours.hidden) == [0, 1, 3]
    close(ours.hidden[0], theirs[0][0])
    close(ours.hidden[1], theirs[1][0])
    norm = model.reference.base_model
    norm = norm.ln_f if name.startswith("GPT2") else norm.norm
    with torch.no_grad():
        close(norm(ours.hidden[3]), theirs[3][0])
    kept = ours.hidden[1].clone()
    story.feed(TEXT[:4])
    assert torch.equal(ours.hidden[1], kept)


def test_hidden_states_are_kept_for_nobody_who_did_not_ask(hosted: Make) -> None:
    story = begin(engine(hosted("OPTForCausalLM")), TEXT)
    assert story.engine.forward([story.row(TEXT[:4])]).hidden == {}
    decoder = story.engine.decoder
    assert isinstance(decoder, Hosted)
    assert decoder._streams == {}


def test_a_lean_model_whose_activation_is_not_the_family_s_is_hosted(hosted: Make) -> None:
    model = ModelConfig.read(hosted("LlamaForCausalLM").folder)
    assert architecture(model) is Llama
    model.source.hidden_act = "gelu"
    assert architecture(model) is Hosted


@pytest.mark.parametrize("name", ["Gemma2ForCausalLM", "Phi3ForCausalLM", "OPTForCausalLM"])
def test_bfloat16_is_no_further_from_float32_than_transformers_is(hosted: Make, name: str) -> None:
    model = hosted(name)
    exact = model.logits(TEXT)
    made = engine(model, dtype="bfloat16")
    ours = made.forward([Row(TEXT, 0, list(range(6)), len(TEXT))]).logits_NV
    with torch.no_grad():
        rough = copy.deepcopy(model.reference).to(torch.bfloat16)
        theirs = rough(torch.tensor([TEXT])).logits[0].float()
    assert ours.dtype == torch.float32
    assert (ours - exact).abs().mean() < 1.3 * (theirs - exact).abs().mean()


def test_engines_do_not_share_what_a_call_means(hosted: Make) -> None:
    """The attention function is registered once for all engines of a process."""
    first, second = engine(hosted("GPT2LMHeadModel")), engine(hosted("Phi3ForCausalLM"))
    one, two = begin(first, TEXT), begin(second, TEXT)
    one.feed(TEXT[:10])
    close(two.feed(TEXT), hosted("Phi3ForCausalLM").logits(TEXT))
    close(one.feed(TEXT[10:]), hosted("GPT2LMHeadModel").logits(TEXT)[10:])
