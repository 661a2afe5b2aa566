"""Who may come in: every limit of a submission, checked once, at the edge. Pure."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from protocol.messages import Refuse, Submit


@dataclass(frozen=True, slots=True)
class Admission:
    """What the target allows: `context` positions for prompt and output, token ids below `vocabulary`."""

    context: int
    vocabulary: int
    end_tokens: frozenset[int]
    rule: str = "match"

    def refusal(self, submit: Submit, *, known: bool, draining: bool, full: bool) -> Refuse | None:
        """Why not, naming the field; None for a welcome guest."""
        if known:
            return _refuse(submit, "invalid", "request", "this request number is in use")
        if draining:
            return _refuse(submit, "draining", "", "the verifier is draining")
        if full:
            return _refuse(submit, "full", "", "too many requests are waiting")
        for field, text in self._faults(submit):
            return _refuse(submit, "invalid", field, text)
        return None

    def _faults(self, submit: Submit) -> list[tuple[str, str]]:
        faults = []
        ending = submit.ending
        if not submit.tokens:
            faults.append(("tokens", "the prompt is empty"))
        for field, tokens in self._token_lists(submit):
            if tokens and max(tokens) >= self.vocabulary:
                faults.append((field, f"token {max(tokens)} is not below {self.vocabulary}"))
        if len(submit.tokens) + ending.max_tokens > self.context:
            text = f"{len(submit.tokens)} prompt tokens and {ending.max_tokens} more exceed {self.context}"
            faults.append(("max_tokens", text))
        if submit.adapter:
            faults.append(("adapter", f"no adapter {submit.adapter!r}"))
        if self.rule == "greedy" and submit.sampling.temperature > 0:
            faults.append(("temperature", "this verifier runs rule greedy: temperature must be 0"))
        return faults

    @staticmethod
    def _token_lists(submit: Submit) -> Iterator[tuple[str, Sequence[int]]]:
        sampling = submit.sampling
        yield "tokens", submit.tokens
        yield "stop_token_ids", submit.ending.stop_token_ids
        yield "logit_bias", [token for token, _ in sampling.logit_bias]
        yield "allowed_token_ids", sampling.allowed
        for word in sampling.bad_words:
            yield "bad_words", word


def _refuse(submit: Submit, code: str, field: str, text: str) -> Refuse:
    return Refuse(code=code, text=text, request=submit.request, field=field)
