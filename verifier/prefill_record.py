"""What a prefill node did for each prompt: values for its log, and spans of those that are traced. Pure."""

from collections import deque
from collections.abc import Iterable
from typing import Final, NamedTuple

from kvtransfer.giving import Job
from protocol import attributes
from protocol.messages import KvOffer
from protocol.spans import Recorder, Span, trace_number, traced

MOST_ENDINGS: Final = 1024
"""Endings that are kept for whoever logs them."""


class Given(NamedTuple):
    """A prompt that is over, for the log. `number` is what its verifier calls the choice, `epoch` counts its offers.

    `tokens` were owed; `detail` says why it was refused.
    """

    verifier: str
    number: int
    epoch: int
    reason: str
    prompt: int
    tokens: int
    seconds: float
    detail: str
    trace: str


class PrefillRecord:
    """Told by the core of everything that happens to prompts."""

    def __init__(self) -> None:
        self.spans = Recorder()
        self.endings: deque[Given] = deque(maxlen=MOST_ENDINGS)

    def computed(self, jobs: Iterable[tuple[Job, int]], started: float, now: float) -> None:
        """A forward had so many tokens of each of these in it."""
        for job, tokens in jobs:
            if (context := traced(job.offer.trace)) is not None:
                self.spans.add(
                    Span(
                        context=context,
                        scope=_scope(job),
                        name=attributes.PREFILL,
                        start=started,
                        end=now,
                        attributes={attributes.STEP_TOKENS: tokens},
                        parent=attributes.GIVEN,
                    )
                )

    def refused(self, verifier: str, offer: KvOffer, detail: str) -> None:
        """It was not taken."""
        self.endings.append(_ending(verifier, offer, "refused", 0.0, detail))

    def ended(self, verifier: str, job: Job, reason: str, now: float) -> None:
        """Nothing more is done for it."""
        self.endings.append(_ending(verifier, job.offer, reason, now - job.begun))
        if (context := traced(job.offer.trace)) is None:
            return
        self.spans.add(
            Span(
                context=context,
                scope=_scope(job),
                name=attributes.GIVEN,
                start=job.begun,
                end=now,
                attributes={
                    attributes.VERIFIER: verifier,
                    attributes.EPOCH: job.offer.epoch,
                    attributes.HANDED_TOKENS: job.offer.end - job.offer.start,
                    attributes.CHANNEL: job.channel,
                    attributes.END: reason,
                },
                key=attributes.GIVEN,
                last=True,
            )
        )


def _scope(job: Job) -> tuple[int, int, int]:
    return (job.link, job.offer.request, job.offer.epoch)


def _ending(verifier: str, offer: KvOffer, reason: str, seconds: float, detail: str = "") -> Given:
    return Given(
        verifier=verifier,
        number=offer.request,
        epoch=offer.epoch,
        reason=reason,
        prompt=len(offer.tokens),
        tokens=max(0, offer.end - offer.start),
        seconds=round(seconds, 6),
        detail=detail,
        trace=trace_number(traced(offer.trace)),
    )
