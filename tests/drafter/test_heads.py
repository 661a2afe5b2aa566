"""Heads over pages guess what dense arithmetic says, from rows as they travel, whatever happens on the way."""

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from drafter.config import DrafterConfig, HiddenConfig
from drafter.core import DrafterCore
from drafter.mirror import Mirror
from drafter.proposers import PROPOSERS
from engine.errors import EngineError
from protocol.link import LinkUp, Received
from protocol.messages import DraftContext, DraftSync, DraftTailStream, Refuse
from protocol.tensor import Tensor as Sent
from tests import heads
from tests.drafter import dense
from tests.drafter.stories import commit, guess, mirror_of
from tests.exact.training import best, chained, read
from tests.models import write_byte_llama

PROMPT: Final = [5, 9, 33, 7, 60, 12, 81, 4, 44, 21]
OUTPUT: Final = [101, 7, 55]
WANT: Final = 6


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("target")
    write_byte_llama(folder)
    return folder


def sent(rows: Tensor) -> Sent:
    return Sent(str(rows.dtype).removeprefix("torch."), tuple(rows.shape), rows.numpy().tobytes())


def rows_of(count: int, width: int) -> Tensor:
    return torch.randn(count, width, generator=torch.Generator().manual_seed(count))


def proposer_of(method: str, folder: Path, target: Path, **more: Any) -> Any:  # noqa: ANN401
    config = DrafterConfig(
        method=method,
        model=folder,
        target=target,
        dtype="float32",
        kv_bytes=more.pop("kv_bytes", 1 << 22),
        hidden=HiddenConfig(projected=False),
        overlap=more.pop("overlap", True),
    )
    return PROPOSERS[method](config)


CHAINS: Final[dict[str, tuple[Callable[[Path], Path], int, dict[str, Any]]]] = {
    "eagle-1": (heads.eagle_1, 1, {"third": False}),
    "eagle-1 without bias": (lambda f: heads.eagle_1(f, bias=False), 1, {"third": False}),
    "eagle-3": (heads.eagle_3, 3, {"third": True}),
    "specforge": (heads.specforge_eagle_3, 3, {"third": True}),
    "deepspec": (heads.deepspec_eagle_3, 2, {"third": True}),
    "speculators": (heads.speculators_eagle_3, 3, {"third": True}),
    "speculators that feeds normed states": (
        lambda f: heads.speculators_eagle_3(f, norm_output=True), 3, {"third": True, "feed_normed": True}),
    "speculators with a normed residual": (
        lambda f: heads.speculators_eagle_3(f, norm_before_residual=True), 3,
        {"third": True, "residual_normed": True}),
}  # fmt: skip


def read_rows(proposer: Any, mirror: Mirror, rows: Tensor, start: int = 0) -> None:  # noqa: ANN401
    proposer.hidden(mirror, start, sent(rows))


@pytest.mark.parametrize("overlap", [True, False])
@pytest.mark.parametrize("name", CHAINS)
def test_a_chain_is_the_dense_one(tmp_path: Path, target: Path, name: str, overlap: bool) -> None:
    write, states, how = CHAINS[name]
    folder = write(tmp_path)
    proposer = proposer_of("eagle3", folder, target, overlap=overlap)
    mirror = mirror_of(PROMPT, OUTPUT)
    proposer.open(mirror)
    rows = rows_of(len(PROMPT) + len(OUTPUT) - 1, states * heads.HIDDEN)
    read_rows(proposer, mirror, rows)
    line = [*PROMPT, *OUTPUT]
    w = read(folder, target)
    assert guess(proposer, mirror, WANT) == chained(w, line, rows, WANT, **how)


def blocked(w: Mapping[str, Tensor], line: Sequence[int], rows: Tensor, block: int) -> Tensor:
    """Final states of the block behind this line."""
    context = dense.rms(rows @ w["fc.weight"].T, w["hidden_norm.weight"])
    ids = torch.tensor([line[-1], *[4] * (block - 1)])
    return dense.block(w, ids, context, layers=2)


@pytest.mark.parametrize("write", [heads.zlab_dflash, heads.speculators_dflash])
def test_a_block_fills_in_its_slots(
    tmp_path: Path, target: Path, write: Callable[[Path], Path]
) -> None:
    """Slot j guesses its own position: the anchor's slot is not used."""
    folder = write(tmp_path)
    proposer = proposer_of("dflash", folder, target)
    mirror = mirror_of(PROMPT, OUTPUT)
    proposer.open(mirror)
    rows = rows_of(len(PROMPT) + len(OUTPUT) - 1, 2 * heads.HIDDEN)
    read_rows(proposer, mirror, rows)
    w = read(folder, target)
    x = blocked(w, [*PROMPT, *OUTPUT], rows, 8)
    assert guess(proposer, mirror, 20) == [best(w, each @ w["lm_head.weight"].T) for each in x[1:]]


def test_a_head_that_leaves_its_output_matrix_to_the_target_uses_the_rows_of_its_tokens(
    tmp_path: Path, target: Path
) -> None:
    """A small vocabulary without a matrix of its own guesses as with a copy of these rows."""
    lacks = heads.speculators_dspark(tmp_path / "lacks", kind="vanilla", vocab=120)
    tensors = load_file(lacks / "model.safetensors")
    del tensors["lm_head.weight"]
    save_file(tensors, lacks / "model.safetensors")
    copies = heads.speculators_dspark(tmp_path / "copies", kind="vanilla", vocab=120)
    ids = tensors["d2t"] + torch.arange(120)
    rows = load_file(target / "model.safetensors")["model.embed_tokens.weight"][ids]
    save_file(tensors | {"lm_head.weight": rows}, copies / "model.safetensors")
    guessed = []
    for folder in (lacks, copies):
        proposer = proposer_of("dspark", folder, target)
        mirror = mirror_of(PROMPT, OUTPUT)
        proposer.open(mirror)
        read_rows(proposer, mirror, rows_of(len(PROMPT) + len(OUTPUT) - 1, 2 * heads.HIDDEN))
        guessed.append(guess(proposer, mirror, WANT))
    assert guessed[0] == guessed[1]
    assert set(guessed[0]) <= set(ids.tolist())


def biased(
    w: Mapping[str, Tensor], kind: str, x: Tensor, anchor: int
) -> tuple[list[int], list[float]]:
    """Slot after slot."""
    before, memory, tokens, chances = anchor, torch.zeros(8), [], []
    for state in x:
        z = e = w["markov_head.markov_w1.weight"][before]
        if kind == "gated":
            gate = (
                w["markov_head.gate_proj.weight"] @ torch.cat((state, e))
                + w["markov_head.gate_proj.bias"]
            )
            z = gate.sigmoid() * e
        if kind == "rnn":
            joint = w["markov_head.joint_proj.weight"] @ torch.cat((memory, e, state))
            g, c, o = (joint + w["markov_head.joint_proj.bias"]).chunk(3)
            memory = g.sigmoid() * memory + (1 - g.sigmoid()) * c.tanh()
            z = o.tanh()
        logits = w["lm_head.weight"] @ state + w["markov_head.markov_w2.weight"] @ z
        sure = (
            w["confidence_head.proj.weight"] @ torch.cat((state, e))
            + w["confidence_head.proj.bias"]
        )
        before = best(w, logits)
        tokens.append(before)
        chances.append(float(sure.sigmoid()))
    return tokens, chances


DSPARKS: Final[dict[str, tuple[Callable[[Path], Path], str, int]]] = {
    "specforge": (heads.specforge_dspark, "vanilla", 0),
    "deepspec, gated": (heads.deepspec_dspark, "gated", 0),
    "speculators, rnn": (heads.speculators_dspark, "rnn", 0),
    "speculators that fills in": (
        lambda f: heads.speculators_dspark(f, kind="vanilla", sample_from_anchor=False), "vanilla", 1),
}  # fmt: skip


@pytest.mark.parametrize("name", DSPARKS)
def test_a_block_with_a_bias_from_token_to_token(tmp_path: Path, target: Path, name: str) -> None:
    """Both conventions: seven guesses where the anchor's slot is one, six where it is not."""
    write, kind, first = DSPARKS[name]
    folder = write(tmp_path)
    proposer = proposer_of("dspark", folder, target)
    mirror = mirror_of(PROMPT, OUTPUT)
    proposer.open(mirror)
    rows = rows_of(len(PROMPT) + len(OUTPUT) - 1, 2 * heads.HIDDEN)
    read_rows(proposer, mirror, rows)
    w = read(folder, target)
    tokens, chances = biased(w, kind, blocked(w, [*PROMPT, *OUTPUT], rows, 7)[first:], OUTPUT[-1])
    assert guess(proposer, mirror, 20) == tokens
    assert mirror.confidences == pytest.approx(chances, abs=1e-5)


def test_guesses_on_predicted_states_give_way_to_those_on_true_ones(
    tmp_path: Path, target: Path
) -> None:
    """All guesses are right and more are on the line, yet those are drawn again from what the target says now."""
    folder = heads.eagle_3(tmp_path)
    proposer = proposer_of("eagle3", folder, target)
    mirror = mirror_of(PROMPT, OUTPUT)
    proposer.open(mirror)
    known = len(PROMPT) + len(OUTPUT) - 1
    rows = rows_of(known + 3, 3 * heads.HIDDEN)
    read_rows(proposer, mirror, rows[:known])
    guess(proposer, mirror, 9)
    right = mirror.line[3:6]
    commit(proposer, mirror, right)
    read_rows(proposer, mirror, rows[known:], known)
    guess(proposer, mirror, 3)
    w = read(folder, target)
    assert (
        mirror.line[6:12]
        == chained(w, [*PROMPT, *OUTPUT, *right], rows, 6, third=True)[: len(mirror.line) - 6]
    )
    assert len(mirror.line) >= 12


def test_full_acceptance_and_a_token_more(tmp_path: Path, target: Path) -> None:
    """The last guess has no draft KV when all of them are accepted: its row is read with the new anchor's."""
    folder = heads.eagle_3(tmp_path)
    proposer = proposer_of("eagle3", folder, target)
    mirror = mirror_of(PROMPT, OUTPUT)
    proposer.open(mirror)
    known = len(PROMPT) + len(OUTPUT) - 1
    rows = rows_of(known + 5, 3 * heads.HIDDEN)
    read_rows(proposer, mirror, rows[:known])
    guess(proposer, mirror, 4)
    committed = [*mirror.line[3:7], 200]
    commit(proposer, mirror, committed)
    read_rows(proposer, mirror, rows[known:], known)
    w = read(folder, target)
    assert guess(proposer, mirror, 4) == chained(
        w, [*PROMPT, *OUTPUT, *committed], rows, 4, third=True
    )


@pytest.mark.parametrize("cut", [1, 4, len(PROMPT) - 1, len(PROMPT)])
@pytest.mark.parametrize(("method", "write", "states"), [
    ("eagle3", heads.eagle_3, 3), ("dflash", heads.zlab_dflash, 2),
])  # fmt: skip
def test_rows_in_pieces_are_as_good_as_rows_at_once(
    tmp_path: Path, target: Path, method: str, write: Callable[[Path], Path], states: int, cut: int
) -> None:
    """A chunk of a prompt ends where its last row is read with the next token of the prompt, not with a guess."""
    folder = write(tmp_path)
    rows = rows_of(len(PROMPT) + len(OUTPUT) - 1, states * heads.HIDDEN)
    whole, pieces = proposer_of(method, folder, target), proposer_of(method, folder, target)
    at_once = mirror_of(PROMPT, OUTPUT)
    whole.open(at_once)
    read_rows(whole, at_once, rows)
    slowly = mirror_of(PROMPT)
    pieces.open(slowly)
    read_rows(pieces, slowly, rows[:cut])
    assert not guess(pieces, slowly, WANT) or cut >= len(PROMPT) - 1
    slowly.replace(0, (), ())
    commit(pieces, slowly, OUTPUT)
    assert not guess(pieces, slowly, WANT)
    read_rows(pieces, slowly, rows[cut:], cut)
    assert guess(pieces, slowly, WANT) == guess(whole, at_once, WANT)


@pytest.mark.parametrize(("method", "write", "states"), [
    ("eagle3", heads.eagle_3, 3), ("dflash", heads.zlab_dflash, 2), ("dspark", heads.deepspec_dspark, 2),
])  # fmt: skip
def test_mirrors_of_different_lengths_share_a_forward(
    tmp_path: Path, target: Path, method: str, write: Callable[[Path], Path], states: int
) -> None:
    folder = write(tmp_path)
    together = proposer_of(method, folder, target, overlap=False)
    lines = [PROMPT[:3], PROMPT, PROMPT * 5]
    mirrors = [mirror_of(line, OUTPUT, request=index) for index, line in enumerate(lines)]
    alone: list[list[int]] = []
    for mirror in mirrors:
        rows = rows_of(len(mirror.prompt) + len(OUTPUT) - 1, states * heads.HIDDEN)
        together.open(mirror)
        read_rows(together, mirror, rows)
        single, own = mirror_of(mirror.prompt, OUTPUT), proposer_of(method, folder, target)
        own.open(single)
        read_rows(own, single, rows)
        alone.append(guess(own, single, WANT))
    proposals = together.propose([(mirror, WANT) for mirror in mirrors])
    assert [list(each.tokens) for each in proposals] == alone


@pytest.mark.parametrize(("method", "write", "states"), [
    ("eagle3", heads.eagle_3, 3), ("dflash", heads.zlab_dflash, 2),
])  # fmt: skip
def test_a_context_may_begin_anywhere(
    tmp_path: Path, target: Path, method: str, write: Callable[[Path], Path], states: int
) -> None:
    """A hole before the rows that come: what was known is dropped, the rest will do. Angles are relative."""
    folder = write(tmp_path)
    rows = rows_of(len(PROMPT) + len(OUTPUT) - 1, states * heads.HIDDEN)
    proposer = proposer_of(method, folder, target)
    mirror = mirror_of(PROMPT, OUTPUT)
    proposer.open(mirror)
    read_rows(proposer, mirror, rows[:3])
    read_rows(proposer, mirror, rows[5:], 5)
    shorter, other = mirror_of(PROMPT[5:], OUTPUT), proposer_of(method, folder, target)
    other.open(shorter)
    read_rows(other, shorter, rows[5:])
    assert guess(proposer, mirror, WANT) == guess(other, shorter, WANT)


def test_without_pages_a_context_begins_anew(tmp_path: Path, target: Path) -> None:
    folder = heads.eagle_3(tmp_path)
    tiny = proposer_of("eagle3", folder, target, kv_bytes=1 << 16)
    pages = tiny._memory.pool.pages
    mirror = mirror_of(PROMPT * 40, OUTPUT)
    hog = tiny._memory.pool.open([], "")
    tiny._memory.pool.reserve(hog, (pages - 1) * 16)
    tiny.open(mirror)
    known = len(mirror.prompt) + len(OUTPUT) - 1
    rows = rows_of(known + 1, 3 * heads.HIDDEN)
    read_rows(tiny, mirror, rows[:known])
    assert guess(tiny, mirror, 3) == []
    commit(tiny, mirror, [77])
    read_rows(tiny, mirror, rows[known:], known)
    assert len(guess(tiny, mirror, 3)) == 3


def test_shared_pages_of_a_prompt_need_no_rows_and_adapters_share_none(
    tmp_path: Path, target: Path
) -> None:
    """KV that was made of hidden states depends on the adapter of the target."""
    folder = heads.eagle_3(tmp_path)
    proposer = proposer_of("eagle3", folder, target)
    prompt = PROMPT * 5
    rows = rows_of(len(prompt), 3 * heads.HIDDEN)
    first = mirror_of(prompt, [101])
    proposer.open(first)
    read_rows(proposer, first, rows)
    guesses = guess(proposer, first, WANT)
    second = mirror_of(prompt, [101], request=2)
    proposer.open(second)
    shared = proposer._memory.contexts[second].true
    assert shared == 48
    read_rows(proposer, second, rows[shared:], shared)
    assert guess(proposer, second, WANT) == guesses
    third = mirror_of(prompt, [101], request=3)
    third.adapter = "law"
    proposer.open(third)
    assert proposer._memory.contexts[third].true == 0


@pytest.mark.parametrize(("rows", "words"), [
    (torch.zeros(2, 100), r"hidden rows are float32\[2, 100\], not float32\[n, 192\]"),
    (torch.zeros(2, 192, dtype=torch.bfloat16), r"hidden rows are bfloat16\[2, 192\]"),
    (torch.zeros(40, 192), "hidden rows end at 40, the text at 13"),
])  # fmt: skip
def test_rows_that_cannot_be_are_the_verifiers_fault(
    tmp_path: Path, target: Path, rows: Tensor, words: str
) -> None:
    """The mirror goes, the refusal says why, and the link lives."""
    core = DrafterCore(DrafterConfig(), proposer_of("eagle3", heads.eagle_3(tmp_path), target))
    core.handle(LinkUp(7, "verifier", "v"), 0.0)
    form = Sent(str(rows.dtype).removeprefix("torch."), tuple(rows.shape), bytes(rows.nbytes))
    sync = DraftSync(1, 1, tuple(PROMPT), tuple(OUTPUT), 8)
    core.handle(Received(7, (sync, DraftContext(1, 1, 0, form))), 0.0)
    (refuse,) = core.outbox(7)
    assert isinstance(refuse, Refuse)
    assert (refuse.code, len(core)) == ("unknown", 0)
    assert re.match(words, refuse.text)


@pytest.mark.parametrize(
    ("method", "write"), [("eagle3", heads.eagle_3), ("dspark", heads.deepspec_dspark)]
)
def test_a_device_that_is_not_there_is_refused(
    tmp_path: Path, target: Path, method: str, write: Callable[[Path], Path]
) -> None:
    folder = write(tmp_path)
    config = DrafterConfig(method=method, model=folder, target=target, device="cuda:7")
    with pytest.raises(EngineError, match="device cuda:7 is not there"):
        PROPOSERS[method](config)


def test_rows_of_a_mirror_that_is_gone_are_nobodys_business(tmp_path: Path, target: Path) -> None:
    core = DrafterCore(DrafterConfig(), proposer_of("eagle3", heads.eagle_3(tmp_path), target))
    core.handle(LinkUp(7, "verifier", "v"), 0.0)
    core.handle(Received(7, (DraftContext(1, 1, 0, sent(torch.zeros(1, 192))),)), 0.0)
    assert core.outbox(7) == []


def test_rows_wake_a_mirror_that_had_none(tmp_path: Path, target: Path) -> None:
    core = DrafterCore(DrafterConfig(), proposer_of("dflash", heads.zlab_dflash(tmp_path), target))
    core.handle(LinkUp(7, "verifier", "v"), 0.0)
    core.handle(Received(7, (DraftSync(1, 1, tuple(PROMPT), tuple(OUTPUT), 8),)), 0.0)
    assert [each.tokens for each in turn_of(core)] == [()]
    assert core.plan() == []
    rows = rows_of(len(PROMPT) + len(OUTPUT) - 1, 2 * heads.HIDDEN)
    core.handle(Received(7, (DraftContext(1, 1, 0, sent(rows)),)), 0.0)
    (row,) = turn_of(core)
    assert (row.base, row.start, len(row.tokens)) == (3, 3, 7)


def turn_of(core: DrafterCore) -> list[DraftTailStream]:
    """One turn of the loop, and what it says."""
    wants = core.plan()
    core.settle(wants, core._proposer.propose(wants), 0.0, 0.0)
    rows = core.outbox(7)
    assert all(isinstance(row, DraftTailStream) for row in rows)
    return [row for row in rows if isinstance(row, DraftTailStream)]
