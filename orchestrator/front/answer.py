"""Answers in the shapes that OpenAI clients read: whole, or as the events of a stream."""

from collections import defaultdict
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from orchestrator.front.generation import Generation, News
from orchestrator.front.kinds import Kind
from orchestrator.front.logprobs import Json, prompt_logprobs
from orchestrator.front.pieces import Piece, Reader, Wishes
from orchestrator.front.schema import Request, StreamOptions
from orchestrator.front.speculation import Level, speculative_decoding
from orchestrator.front.text import Prompt, Tokenizer
from protocol.messages import Done, Emit, Scored, Statistics


@dataclass(frozen=True, slots=True)
class About:
    """What an answer is called (`number` makes its id, `created` is the Unix time), and how much it tells.

    `draft_length` is the most that a round may draft.
    """

    model: str
    number: str
    created: int
    level: Level = "none"
    draft_length: int = 0


class Part(NamedTuple):
    """A piece of one choice; the first `opens` it, `done` comes with its last."""

    choice: int
    piece: Piece
    done: Done | None = None
    opens: bool = False


class Answer:
    """One request's answer to its prompts."""

    def __init__(
        self,
        kind: Kind,
        request: Request,
        prompts: Sequence[Prompt],
        tokenizer: Tokenizer,
        about: About,
    ) -> None:
        self.number = kind.prefix + about.number
        self._kind = kind
        self._wishes = Wishes.of(request)
        stream = request.stream_options or StreamOptions()
        self._usage_wanted = bool(stream.include_usage)
        self._usage_always = bool(stream.continuous_usage_stats)
        self._head: Json = {
            "id": self.number,
            "created": about.created,
            "model": about.model,
        }
        self._prompts = prompts
        self._known = tokenizer.bytes
        self._about = about
        self._choices = request.n or 1
        self._readers = [
            reader for prompt in prompts for reader in self._prompt_readers(prompt, tokenizer)
        ]
        self._scores: list[list[Scored]] = [[] for _ in prompts]
        self._held: list[list[News]] = [[] for _ in prompts]
        self._opened: set[int] = set()
        self._done: dict[int, Done] = {}
        self._emitted = 0  # tokens of output, of all choices

    def _prompt_readers(self, prompt: Prompt, tokenizer: Tokenizer) -> Iterator[Reader]:
        wishes = self._wishes
        needed = wishes.echo or (wishes.logprobs is not None and not self._kind.prompt_aside)
        text = prompt.text
        if text is None:
            text = tokenizer.decode(prompt.tokens) if needed else ""
        for _ in range(self._choices):
            yield Reader(prompt, text, wishes, self._known)

    async def whole(self, generation: Generation) -> Json:
        """Everything at once."""
        pieces: defaultdict[int, Piece] = defaultdict(Piece)
        async for news in generation.news():
            for part in self._parts(news):
                pieces[part.choice] += part.piece
        aside = self._kind.prompt_aside
        choices = [
            {
                "index": index,
                **self._kind.whole(pieces[index].text),
                **self._beside(pieces[index]),
                **self._ending(self._done[index]),
                **({} if aside else self._of_prompt(index)),
            }
            for index in range(len(self._readers))
        ]
        return {
            **self._head,
            "object": self._kind.whole_object,
            "choices": choices,
            **self._totals(),
            **(self._of_prompt(0) if aside else {}),
        }

    async def events(self, generation: Generation) -> AsyncIterator[Json]:
        """Objects of a stream. An error ends them early, and then nothing says that a choice finished."""
        async for news in generation.news():
            for part in self._parts(news):
                for event in self._events(part):
                    yield event
        if self._usage_wanted:
            yield self._event([], self._totals())

    # --- reading ------------------------------------------------------------------------------------

    def _parts(self, news: News) -> Iterator[Part]:
        """What a reply adds to choices; the first part of each is its prompt, where that is wanted."""
        for choice, prompt, reply in self._ready(news):
            reader = self._readers[choice]
            if choice not in self._opened:
                self._opened.add(choice)
                yield Part(choice, reader.opening(self._scores[prompt]), opens=True)
            if isinstance(reply, Done):
                self._done[choice] = reply
                yield Part(choice, Piece(), reply)
            else:
                self._emitted += len(reply.tokens)
                yield Part(choice, reader.take(reply))

    def _ready(self, news: News) -> list[News]:
        """`news` and what waited for it: an answer that begins with its prompt waits for the prompt's scores."""
        if not self._wishes.scores_prompt:
            return [news]
        scores, held = self._scores[news.prompt], self._held[news.prompt]
        if isinstance(news.reply, Emit):
            scores += news.reply.prompt_logprobs
        held.append(news)
        if len(scores) < len(self._prompts[news.prompt].tokens) - 1:
            return []
        self._held[news.prompt] = []
        return held

    # --- writing ------------------------------------------------------------------------------------

    def _events(self, part: Part) -> Iterator[Json]:
        """What a part becomes in a stream."""
        choice, piece, done, opens = part
        entry: Json = {"index": choice, "logprobs": None, "finish_reason": None}
        about = self._of_prompt(choice) if opens else {}
        if opens and self._kind.opening is not None:
            yield self._event([entry | self._kind.opening], about)
            about = {}
        if piece.text or piece.ids or piece.marks or about:
            content = self._kind.piece(piece.text) | self._beside(piece)
            yield self._event([entry | content | about])
        if done is not None:
            lossy = (
                done.statistics.lossy if not self._usage_wanted else ""
            )  # else it is beside usage
            label = {"lossy": lossy} if lossy else {}
            yield self._event([entry | self._kind.closing | self._ending(done)], label)

    def _event(self, choices: list[Json], more: Mapping[str, Any] | None = None) -> Json:
        event = {**self._head, "object": self._kind.piece_object, "choices": choices}
        if self._usage_always:
            prompt = sum(len(each.tokens) for each in self._prompts)
            event["usage"] = self._usage(prompt, self._emitted)
        elif self._usage_wanted:
            event["usage"] = None
        return {**event, **(more or {})}

    def _usage(self, prompt: int, output: int) -> Json:
        counted = output if self._wishes.output else 0
        return {
            "prompt_tokens": prompt,
            "completion_tokens": counted,
            "total_tokens": prompt + counted,
        }

    def _beside(self, piece: Piece) -> Json:
        """What stands beside the text."""
        beside: Json = {"logprobs": None}
        if self._wishes.logprobs is not None:
            beside["logprobs"] = self._kind.logprobs(
                piece.marks, self._wishes.logprobs, self._known
            )
        if self._wishes.ids:
            beside |= {"token_ids": piece.ids, "drafted": piece.drafted}
        return beside

    def _ending(self, done: Done) -> Json:
        return {
            "finish_reason": done.reason if self._wishes.output else "length",
            "draftmesh": _counts(done.statistics),
        }

    def _prompt(self, choice: int) -> Prompt:
        return self._prompts[choice // self._choices]

    def _of_prompt(self, choice: int) -> Json:
        shown: Json = {}
        prompt = self._prompt(choice).tokens
        if self._wishes.ids:
            shown["prompt_token_ids"] = list(prompt)
        if self._wishes.prompt_logprobs is not None:
            scores = self._scores[choice // self._choices]
            shown["prompt_logprobs"] = prompt_logprobs(
                prompt, scores, self._wishes.prompt_logprobs, self._known
            )
        return shown

    def _totals(self) -> Json:
        """Usage, and what speculation did."""
        done = [self._done[index] for index in range(0, len(self._readers), self._choices)]
        usage = self._usage(
            sum(each.prompt_tokens for each in done),
            sum(each.output_tokens for each in self._done.values()),
        )
        cached = sum(each.statistics.cached_tokens for each in done)
        totals: Json = {"usage": usage | {"prompt_tokens_details": {"cached_tokens": cached}}}
        if lossy := next((each.statistics.lossy for each in done if each.statistics.lossy), ""):
            totals["lossy"] = lossy
        if self._about.level != "none":
            totals["metrics"] = {"speculative_decoding": self._speculation()}
        return totals

    def _speculation(self) -> Json | None:
        """Of the only choice; several have nothing to say together."""
        level, longest = self._about.level, self._about.draft_length
        if len(self._done) != 1 or not self._wishes.output or not longest:
            return None
        return speculative_decoding(self._done[0].statistics, longest, level)


def _counts(statistics: Statistics) -> Json:
    return {
        "rounds": statistics.rounds,
        "drafted": statistics.drafted,
        "accepted": statistics.accepted,
    }
