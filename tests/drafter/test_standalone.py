"""A language model as drafter: what it draws, what it keeps, and what it does when it cannot go on."""

import math
from collections.abc import Sequence
from pathlib import Path

import pytest
import torch
import transformers

from drafter.config import DrafterConfig
from drafter.mirror import Mirror
from drafter.noise import noise
from drafter.proposers import PROPOSERS, Proposal
from drafter.proposers.reading import paced, share
from drafter.proposers.standalone import StandaloneProposer
from engine.config import EngineConfig
from engine.philox import Role, uniforms
from engine.runner import Engine
from engine.sampling import SamplingParams, sample
from engine.truncated import pick
from protocol.laws import unpack
from protocol.messages import DraftSync, Sampling, VerifyCommit
from tests.drafter.stories import commit, extend, guess, mirror_of, opened

PROMPT = [5, 9, 33, 7, 60, 12, 81, 4, 44, 21]
DRAWN = Sampling(temperature=0.9, top_p=0.9, seed=11)


class Reference:
    """The same weights in transformers, and a count of what the engine was made to read."""

    def __init__(self, folder: Path) -> None:
        torch.manual_seed(0)
        config = transformers.LlamaConfig(
            vocab_size=101,
            hidden_size=48,
            intermediate_size=80,
            num_hidden_layers=2,
            num_attention_heads=4,
            num_key_value_heads=2,
            max_position_embeddings=128,
            initializer_range=0.3,
        )
        self.model = transformers.LlamaForCausalLM(config).eval()
        self.model.save_pretrained(folder)
        self.folder = folder

    def proposer(self, pages: int = 64, context: int = 128) -> StandaloneProposer:
        config = EngineConfig(pages=pages, max_context=context, dtype="float32", page_size=4)
        return StandaloneProposer(Engine.load(self.folder, config), context)

    def logits(self, tokens: Sequence[int]) -> torch.Tensor:
        with torch.no_grad():
            logits: torch.Tensor = self.model(torch.tensor([list(tokens)])).logits[:, -1]
        return logits

    def greedy(self, tokens: Sequence[int], count: int) -> list[int]:
        text = list(tokens)
        for _ in range(count):
            text.append(int(self.logits(text).argmax()))
        return text[len(tokens) :]


@pytest.fixture(scope="module")
def reference(tmp_path_factory: pytest.TempPathFactory) -> Reference:
    return Reference(tmp_path_factory.mktemp("draft"))


def drive(proposer: StandaloneProposer, mirrors: Sequence[Mirror], want: int) -> int:
    """All mirrors together, as the loop does; how many calls that took."""
    goals = {mirror: len(mirror.line) + want for mirror in mirrors}
    calls = 0
    while wants := [(mirror, goals[mirror] - len(mirror.line)) for mirror in mirrors]:
        proposals = proposer.propose(wants)
        calls += 1
        for (mirror, left), proposal in zip(wants, proposals, strict=True):
            extend(mirror, proposal)
            if not proposal.pending and len(proposal.tokens) < left:
                goals[mirror] = len(mirror.line)
        mirrors = [mirror for mirror in mirrors if len(mirror.line) < goals[mirror]]
    return calls


def test_greedy_guesses_are_the_models_own_text(reference: Reference) -> None:
    proposer = reference.proposer()
    mirror = opened(proposer, PROMPT, [8, 3])
    assert guess(proposer, mirror, 12) == reference.greedy([*PROMPT, 8, 3], 12)
    probability = reference.logits([*PROMPT, 8, 3]).softmax(-1).max().item()
    assert mirror.confidences[0] == pytest.approx(probability, abs=1e-5)


def test_mirrors_of_different_lengths_draw_in_the_same_forwards(reference: Reference) -> None:
    proposer = reference.proposer()
    mirrors = [opened(proposer, PROMPT[:length]) for length in (1, 4, 10)]
    assert drive(proposer, mirrors, 9) == 9
    assert [mirror.line for mirror in mirrors] == [
        reference.greedy(mirror.prompt, 9) for mirror in mirrors
    ]


def test_commits_are_read_in_one_go_and_what_they_contradict_is_forgotten(
    reference: Reference,
) -> None:
    proposer = reference.proposer()
    mirror = opened(proposer, PROMPT)
    guess(proposer, mirror, 8)
    right = mirror.line[:3]
    commit(proposer, mirror, [*right, 77, 78, 79])
    (proposal,) = proposer.propose([(mirror, 1)])
    assert list(proposal.tokens) == reference.greedy([*PROMPT, *right, 77, 78, 79], 1)
    extend(mirror, proposal)
    assert guess(proposer, mirror, 6) == reference.greedy([*PROMPT, *mirror.line[:7]], 6)


def test_guesses_that_became_true_are_not_read_again(reference: Reference) -> None:
    proposer = reference.proposer()
    mirror = opened(proposer, PROMPT)
    guess(proposer, mirror, 8)
    commit(proposer, mirror, mirror.line[:5])
    held = proposer._sequences[mirror].computed
    assert held == len(PROMPT) + 7  # the last guess was drawn, but nothing was drawn after it
    assert guess(proposer, mirror, 4) == reference.greedy([*PROMPT, *mirror.line[:8]], 4)


def test_a_drawn_guess_is_what_the_target_would_draw_at_its_place(reference: Reference) -> None:
    proposer = reference.proposer()
    mirrors = [mirror_of(PROMPT, [8], sampling=DRAWN, choice=choice) for choice in (0, 1)]
    for mirror in mirrors:
        proposer.open(mirror)
    drive(proposer, mirrors, 10)
    params = SamplingParams(temperature=0.9, top_p=0.9, seed=11)
    for mirror in mirrors:
        text = [*PROMPT, 8]
        while len(text) < len(PROMPT) + 11:
            uniform = uniforms([11], [mirror.choice], [len(text)], Role.TARGET)
            text.append(int(sample(reference.logits(text), [params], uniform)))
        assert mirror.line == text[len(PROMPT) :]
    assert mirrors[0].line != mirrors[1].line


def test_a_long_prompt_is_read_in_chunks_beside_others_that_draw(reference: Reference) -> None:
    proposer = reference.proposer()
    proposer._chunk = 16
    short = opened(proposer, PROMPT[:1])
    long = opened(proposer, PROMPT * 5)
    proposals = proposer.propose([(long, 4), (short, 4)])
    assert proposals[0] == Proposal(pending=True)
    assert list(proposals[1].tokens) == reference.greedy(PROMPT[:1], 1)
    assert guess(proposer, long, 4) == reference.greedy(PROMPT * 5, 4)


def test_a_text_is_drafted_for_up_to_the_context_and_no_further(reference: Reference) -> None:
    proposer = reference.proposer(context=16)
    mirror = opened(proposer, PROMPT)
    assert guess(proposer, mirror, 20) == reference.greedy(PROMPT, 6)
    assert proposer.propose([(mirror, 5)]) == [Proposal()]
    commit(proposer, mirror, [1] * 20)
    assert proposer.propose([(mirror, 5)]) == [Proposal()]


def test_who_finds_no_pages_proposes_nothing_until_there_are_some(reference: Reference) -> None:
    proposer = reference.proposer(pages=4)
    first, second = opened(proposer, PROMPT), opened(proposer, PROMPT[::-1])
    assert guess(proposer, first, 2) == reference.greedy(PROMPT, 2)
    assert proposer.propose([(second, 2)]) == [Proposal()]
    assert guess(proposer, first, 1) == reference.greedy([*PROMPT, *first.line[:2]], 1)
    proposer.close(first)
    assert guess(proposer, second, 2) == reference.greedy(PROMPT[::-1], 2)


def test_pages_of_a_prompt_are_shared_and_come_back(reference: Reference) -> None:
    proposer = reference.proposer(pages=8)
    first, second = opened(proposer, PROMPT * 2), opened(proposer, PROMPT * 2)
    guess(proposer, first, 1)
    assert guess(proposer, second, 3) == reference.greedy(PROMPT * 2, 3)
    shared = set(proposer._sequences[first].pages) & set(proposer._sequences[second].pages)
    assert len(shared) == 4
    proposer.close(first)
    proposer.close(second)
    assert proposer._pool.free == 8
    proposer.reset()
    assert proposer._pool.free == 8
    again = opened(proposer, PROMPT * 2)
    assert guess(proposer, again, 3) == reference.greedy(PROMPT * 2, 3)


def test_a_token_that_the_draft_model_does_not_know_ends_its_drafting(reference: Reference) -> None:
    proposer = reference.proposer()
    mirror, other = opened(proposer, PROMPT), opened(proposer, PROMPT)
    guess(proposer, mirror, 2)
    commit(proposer, mirror, [101])
    proposals = proposer.propose([(mirror, 1), (other, 1)])
    assert proposals[0] == Proposal()
    assert list(proposals[1].tokens) == reference.greedy(PROMPT, 1)


def test_nothing_is_proposed_for_an_empty_text(reference: Reference) -> None:
    proposer = reference.proposer()
    assert proposer.propose([(opened(proposer, []), 3)]) == [Proposal()]


@pytest.mark.parametrize(
    ("unread", "chunk", "shares"),
    [
        ([1, 1, 1], 2, [1, 1, 1]),
        ([40, 1, 50], 64, [40, 1, 23]),
        ([40, 1], 1, [16, 1]),
        ([5, 30, 7], 20, [5, 15, 0]),
        ([], 9, []),
    ],
)
def test_a_forward_is_shared(unread: list[int], chunk: int, shares: list[int]) -> None:
    assert share(unread, chunk) == shares


def test_a_chunk_follows_the_clock() -> None:
    assert paced(100, 100, seconds=0.25) == 100
    assert paced(100, 100, seconds=0.5) == 50
    assert paced(100, 100, seconds=0.001) == 200
    assert paced(100, 10, seconds=0.5) == 100
    assert paced(100, 100, seconds=math.inf) == 16


def test_the_table_makes_one_from_a_folder(reference: Reference) -> None:
    config = DrafterConfig(
        method="standalone", model=reference.folder, dtype="float32", context=20, kv_bytes=1 << 20
    )
    proposer = PROPOSERS["standalone"](config)
    assert guess(proposer, opened(proposer, PROMPT), 30) == reference.greedy(PROMPT, 10)
    with pytest.raises(ValueError, match="needs `model`"):
        PROPOSERS["standalone"](DrafterConfig(method="standalone"))


# --- guesses that are drawn -------------------------------------------------------------------------------------------


def drawing(
    reference: Reference, *, slice_: int = 4, fresh: bool = False, seed: int = 11
) -> tuple[StandaloneProposer, Mirror]:
    config = EngineConfig(pages=64, max_context=128, dtype="float32", page_size=4)
    proposer = StandaloneProposer(Engine.load(reference.folder, config), 128, samples=True)
    mirror = mirror_of(PROMPT, sampling=Sampling(temperature=0.9, top_p=0.9, seed=seed))
    mirror.slice, mirror.fresh = slice_, fresh
    proposer.open(mirror)
    return proposer, mirror


def drawn(proposer: StandaloneProposer, mirror: Mirror, want: int) -> list[int]:
    while len(mirror.line) - mirror.base < want:
        (proposal,) = proposer.propose([(mirror, want)])
        mirror.extend(proposal.tokens, proposal.confidences, proposal.laws)
    return mirror.line[mirror.base :]


def test_a_guess_is_drawn_from_the_very_numbers_that_are_sent(reference: Reference) -> None:
    proposer, mirror = drawing(reference)
    tokens = drawn(proposer, mirror, 6)
    sent = mirror.take()
    laws = unpack(sent.slice_ids, sent.slice_probs, sent.tokens, 101)
    for place, (token, law) in enumerate(zip(tokens, laws, strict=True)):
        coin = float(uniforms(11, 0, len(PROMPT) + place, Role.DRAFT))
        assert int(law.ids[pick(law.values.tolist(), coin)]) == token
        assert len(law.ids) <= 4


def test_a_slice_is_the_models_law_truncated_and_renormalised(reference: Reference) -> None:
    proposer, mirror = drawing(reference)
    mirror.sampling = Sampling(temperature=0.9, seed=11)
    drawn(proposer, mirror, 1)
    logits = reference.logits(PROMPT)[0] / 0.9
    best = logits.topk(4)
    assert mirror.laws[0].ids.tolist() == best.indices.tolist()
    assert mirror.laws[0].values.tolist() == pytest.approx(
        best.values.softmax(-1).tolist(), abs=1e-5
    )


def test_noise_of_a_later_base_is_other_noise_where_that_is_wanted(reference: Reference) -> None:
    def again(*, fresh: bool) -> list[list[int]]:
        lines = []
        for seed in range(12):
            proposer, mirror = drawing(reference, fresh=fresh, seed=seed)
            before = drawn(proposer, mirror, 3)
            final = VerifyCommit(1, 1, 0, tuple(before[:1]), 64)
            other = Mirror.open(
                7, DraftSync(1, 1, tuple(PROMPT), tuple(before[:1]), 64, mirror.sampling)
            )
            other.slice, other.fresh = 4, fresh
            mirror.adopt(final)
            proposer.open(other)
            lines.append([*before[1:], *drawn(proposer, other, 2)])
        return lines

    assert all(line[:2] == line[2:] for line in again(fresh=False))
    assert any(line[:2] != line[2:] for line in again(fresh=True))


def test_another_drafter_at_the_same_base_has_other_noise_where_that_is_wanted() -> None:
    def mirror(epoch: int, *, fresh: bool) -> Mirror:
        made = Mirror.open(
            1, DraftSync(1, epoch, (5, 6), (7,), 64, Sampling(temperature=1.0, seed=3))
        )
        made.fresh = fresh
        return made

    for fresh in (False, True):
        first, second = (noise([mirror(epoch, fresh=fresh)] * 3, [3, 4, 5]) for epoch in (1, 2))
        assert [one != other for one, other in zip(first, second, strict=True)] == [fresh] * 3
        assert noise([mirror(2**40, fresh=fresh)], [3])[0] < 1


def test_a_verifier_that_takes_no_laws_gets_the_targets_own_draw(reference: Reference) -> None:
    proposer, mirror = drawing(reference, slice_=0)
    drawn(proposer, mirror, 3)
    assert mirror.laws == []
    assert mirror.take().slice_ids is None
