"""What a story about a drafter needs: mirrors, commits, and a verifier that knows the true text."""

from collections.abc import Sequence

from drafter.mirror import Mirror
from drafter.proposers import Proposal, Proposer
from protocol.messages import DraftSync, Sampling, VerifyCommit


def mirror_of(
    prompt: Sequence[int],
    output: Sequence[int] = (),
    *,
    ahead: int = 64,
    request: int = 1,
    sampling: Sampling | None = None,
    choice: int = 0,
) -> Mirror:
    sync = DraftSync(
        request=request,
        epoch=1,
        prompt=tuple(prompt),
        output=tuple(output),
        max_ahead=ahead,
        sampling=sampling or Sampling(),
        choice=choice,
    )
    return Mirror.open(7, sync)


def opened(
    proposer: Proposer, prompt: Sequence[int], output: Sequence[int] = (), ahead: int = 64
) -> Mirror:
    mirror = mirror_of(prompt, output, ahead=ahead)
    proposer.open(mirror)
    return mirror


def commit(proposer: Proposer, mirror: Mirror, tokens: Sequence[int]) -> None:
    final = VerifyCommit(mirror.request, 1, mirror.base, tuple(tokens), mirror.max_ahead)
    proposer.adopt(mirror, mirror.adopt(final))


def guess(proposer: Proposer, mirror: Mirror, want: int) -> list[int]:
    """Ask until there is no more, as the drafter's loop does; the guesses are on the line afterwards."""
    start = len(mirror.line)
    while left := start + want - len(mirror.line):
        (proposal,) = proposer.propose([(mirror, left)])
        extend(mirror, proposal)
        if not proposal.pending and len(proposal.tokens) < left:
            break
    return mirror.line[start:]


def extend(mirror: Mirror, proposal: Proposal) -> None:
    assert len(proposal.tokens) == len(proposal.confidences)
    assert all(0.0 <= confidence <= 1.0 for confidence in proposal.confidences)
    mirror.extend(proposal.tokens, proposal.confidences)


def remember(proposer: Proposer, output: Sequence[int]) -> None:
    """A request comes and goes, leaving its output."""
    proposer.close(opened(proposer, (), output))
