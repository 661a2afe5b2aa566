"""The verifier's side of its front doors: what they asked for, and what they are told of it. Pure."""

from collections.abc import Callable, Sequence

from protocol.messages import AnyMessage, Grammar, Refuse, Submit
from protocol.outbox import Outbox
from protocol.spans import traced
from verifier.admission import Admission
from verifier.commit import Detokenizer, Output, Timed
from verifier.emissions import emissions, last_words
from verifier.generation import Generation
from verifier.ledger import Ledger


class Fronts:
    """Every choice that somebody waits for, by its number and by who asked for it.

    `admission` knows the model's limits, `detokenizer` makes one for every choice, and `timed` one that knows its times
    of that, for choices that are traced; `lossy` goes with every last word.
    """

    def __init__(
        self,
        admission: Admission,
        detokenizer: Callable[[], Detokenizer],
        ledger: Ledger,
        *,
        lossy: str,
        timed: Callable[[Detokenizer], Timed] | None = None,
    ) -> None:
        self.links: set[int] = set()
        self.generations: dict[int, Generation] = {}
        self.grammars: list[Grammar] = []  # to be compiled: choices wait for them
        self._admission = admission
        self._detokenizer = detokenizer
        self._timed = timed
        self._ledger = ledger
        self._lossy = lossy
        self._choices: dict[tuple[int, int], list[Generation]] = {}  # by (front link, its request)
        self._outbox: Outbox[Generation] = Outbox()
        self._last_id = 0

    def __contains__(self, link: int) -> bool:
        return link in self.links

    def __len__(self) -> int:
        return len(self.generations)

    def link_up(self, link: int) -> None:
        self.links.add(link)

    def link_down(self, link: int) -> list[Generation]:
        """Nobody will read what is said there; the choices that nobody waits for any longer."""
        self.links.discard(link)
        self._outbox.drop(link)
        return [each for each in self.generations.values() if each.front == link]

    # --- what they ask for --------------------------------------------------------------------------

    def submit(
        self, link: int, submit: Submit, now: float, *, draining: bool, full: bool
    ) -> list[Generation]:
        """A generation for each choice; none if the request is refused, which is said."""
        key = (link, submit.request)
        known = key in self._choices
        refusal = self._admission.refusal(submit, known=known, draining=draining, full=full)
        if refusal is not None:
            self.refuse(link, refusal)
            return []
        made = [self._generation(link, submit, choice, now) for choice in range(submit.choices)]
        self._choices[key] = list(made)
        self.generations.update({each.id: each for each in made})
        if submit.grammar is not None:
            self.grammars.append(submit.grammar)
        return made

    def _generation(self, link: int, submit: Submit, choice: int, now: float) -> Generation:
        self._last_id += 1
        detokenizer, context, timed = self._detokenizer(), traced(submit.trace), None
        if context is not None and self._timed is not None:
            detokenizer = timed = self._timed(detokenizer)
        output = Output(submit.ending, self._admission.end_tokens, detokenizer)
        line = list(submit.tokens)
        generation = Generation(self._last_id, link, submit, choice, now, output, line)
        generation.context, generation.timed = context, timed
        return generation

    def choices(self, link: int, request: int) -> list[Generation]:
        """Those of this request that are not over."""
        return list(self._choices.get((link, request), ()))

    # --- what they are told -------------------------------------------------------------------------

    def refuse(self, link: int, refusal: Refuse) -> None:
        self._ledger.refused(refusal.code)
        self._outbox.note(link, refusal)

    def news(self, generation: Generation) -> None:
        """More of it is final."""
        self._outbox.news(generation.front, generation.id, generation)

    def last_words(self, generation: Generation, reason: str, detail: str = "") -> None:
        """The rest of its text, why it ended, and what it cost."""
        generation.output.finish = reason
        self._outbox.note(generation.front, *last_words(generation, reason, detail, self._lossy))

    def forget(self, generation: Generation) -> None:
        """Nothing is left of the choice, but for last words that are not sent yet."""
        self._outbox.forget(generation.front, generation.id)
        del self.generations[generation.id]
        key = (generation.front, generation.submit.request)
        self._choices[key].remove(generation)
        if not self._choices[key]:
            del self._choices[key]

    def messages(self, link: int) -> list[AnyMessage]:
        """What fits into the next frame to this front door."""
        return self._outbox.take(link, emissions)

    @property
    def news_for(self) -> Sequence[int]:
        """Links that must be told something."""
        return list(self._outbox.links)
