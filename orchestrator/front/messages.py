"""What the HTTP side asks of the mesh side, and what it hears back."""

from dataclasses import dataclass, field

from protocol.messages import (
    Done,
    Emit,
    Ending,
    Fingerprint,
    Grammar,
    Limits,
    Sampling,
    Submit,
)


@dataclass(frozen=True, slots=True)
class Query:
    """One prompt to be answered by `choices` independent choices."""

    tokens: tuple[int, ...]
    ending: Ending
    sampling: Sampling
    choices: int = 1
    logprobs: int | None = None
    prompt_logprobs: int | None = None
    grammar: Grammar | None = None
    trace: str = ""
    name: str = field(default="", compare=False)
    """What its answer is called: nothing that is asked."""

    def submit(self, ticket: int) -> Submit:
        """As a verifier hears it."""
        return Submit(
            request=ticket,
            tokens=self.tokens,
            ending=self.ending,
            sampling=self.sampling,
            choices=self.choices,
            logprobs=self.logprobs,
            prompt_logprobs=self.prompt_logprobs,
            grammar=self.grammar,
            trace=self.trace,
        )


@dataclass(frozen=True, slots=True)
class Failure:
    """A query that ends without an answer: an HTTP status and the fields of an error body."""

    status: int
    text: str
    param: str | None = None
    code: str | None = None


Reply = Emit | Done | Failure
"""`Emit`s of all choices in order, then a `Done` for each choice; or a `Failure` at any point, which is the last."""


@dataclass(frozen=True, slots=True)
class Member:
    """Another node: what it said of itself when the link began, and what it has to do for us.

    Drafters have no link with the front door: what is known of them comes by their verifiers' reports.
    """

    role: str
    node_id: str
    limits: Limits = Limits()
    fingerprint: Fingerprint = Fingerprint()
    method: str = ""
    draining: bool = False
    choices: int = 0


@dataclass(frozen=True, slots=True)
class Status:
    """How the mesh side is. `context` and `vocabulary` are zero while no verifier is there to tell."""

    alive: bool
    ready: bool
    draining: bool = False
    verifiers: int = 0
    in_flight: int = 0
    context: int = 0
    vocabulary: int = 0
    draft_length: int = 0
    """Draft tokens that a round may have at most, on any verifier."""
    members: tuple[Member, ...] = ()

    @property
    def drafters(self) -> int:
        """Drafters that some verifier has a link with."""
        return sum(member.role == "drafter" for member in self.members)

    @property
    def speculating(self) -> bool:
        """Whether anybody drafts, and may; if not, all goes on without."""
        return bool(self.drafters and self.draft_length)
