"""A tour of the API with the `openai` client, whatever its major version: `python openai_tour.py URL`.

Needs nothing but the client, so that it also runs where only an old one is installed.
"""

# ruff: noqa: T201

import asyncio
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import openai

SHORT: Final[dict[str, Any]] = {"max_tokens": 6, "temperature": 0, "seed": 7}
USER: Final[dict[str, str]] = {"role": "user", "content": "hi"}


class Tour:
    """Every step is a method; what it finds wrong is an AssertionError."""

    def __init__(self, url: str, key: str = "none") -> None:
        self.client = openai.OpenAI(base_url=url, api_key=key, max_retries=0, timeout=60)
        self.later = openai.AsyncOpenAI(base_url=url, api_key=key, max_retries=0, timeout=60)
        self.model = self.client.models.list().data[0].id
        self.chat: Any = self.client.chat.completions.create
        self.complete: Any = self.client.completions.create

    def steps(self) -> Iterator[tuple[str, Callable[[], None]]]:
        for name in dir(self):
            if name.startswith("step_"):
                yield name.removeprefix("step_"), getattr(self, name)

    def step_models(self) -> None:
        card = self.client.models.retrieve(self.model)
        assert (card.id, card.object, card.owned_by) == (self.model, "model", "draftmesh")

    def step_chat(self) -> None:
        whole = self.chat(model=self.model, messages=[USER], **SHORT)
        assert whole.object == "chat.completion"
        assert whole.choices[0].finish_reason in {"stop", "length"}
        usage = whole.usage
        assert usage.total_tokens == usage.prompt_tokens + usage.completion_tokens
        assert usage.prompt_tokens_details.cached_tokens >= 0
        stream = self.chat(
            model=self.model,
            messages=[USER],
            stream=True,
            stream_options={"include_usage": True},
            **SHORT,
        )
        pieces = list(stream)
        assert joined(pieces) == [whole.choices[0].message.content]
        assert pieces[0].choices[0].delta.role == "assistant"
        assert pieces[-1].usage.completion_tokens == usage.completion_tokens
        assert {piece.id for piece in pieces} == {pieces[0].id}

    def step_conversation(self) -> None:
        first = self.chat(model=self.model, messages=[USER], **SHORT).choices[0].message
        messages = [{"role": "system", "content": "a"}, USER, first, USER]
        said = self.chat(model=self.model, messages=messages, max_tokens=2)
        assert said.usage.completion_tokens <= 2
        parts = [{"type": "text", "text": "hi"}]
        one = self.chat(model=self.model, messages=[{"role": "user", "content": parts}], **SHORT)
        assert one.choices[0].message.content == first.content

    def step_choices(self) -> None:
        whole = self.chat(model=self.model, messages=[USER], n=3, **SHORT)
        assert [choice.index for choice in whole.choices] == [0, 1, 2]
        pieces = self.chat(model=self.model, messages=[USER], n=3, stream=True, **SHORT)
        assert joined(list(pieces)) == [choice.message.content for choice in whole.choices]

    def step_chat_logprobs(self) -> None:
        asked: dict[str, Any] = {"logprobs": True, "top_logprobs": 3, **SHORT}
        choice = self.chat(model=self.model, messages=[USER], **asked).choices[0]
        for entry in choice.logprobs.content:
            assert entry.logprob <= 0
            assert len(entry.top_logprobs) == 3
            assert bytes(entry.bytes).decode(errors="replace") or entry.token
        streamed = []
        for piece in self.chat(model=self.model, messages=[USER], stream=True, **asked):
            streamed += [e for c in piece.choices if c.logprobs for e in c.logprobs.content]
        assert [e.token for e in streamed] == [e.token for e in choice.logprobs.content]

    def step_parameters(self) -> None:
        asked = {**SHORT, "presence_penalty": 0.5, "frequency_penalty": 0.5, "stop": ["§", "##"]}
        more = {"top_k": 5, "min_p": 0.1, "repetition_penalty": 1.1, "return_token_ids": True}
        said = self.chat(
            model=self.model,
            messages=[USER],
            logit_bias={"5": -100},
            top_p=0.9,
            user="me",
            extra_body={**more, "bad_words": ["x"], "min_tokens": 1, "ignore_eos": True},
            **asked,
        )
        ids = said.choices[0].model_extra["token_ids"]
        assert len(ids) == said.usage.completion_tokens
        assert said.model_extra["prompt_token_ids"]

    def step_completions(self) -> None:
        whole = self.complete(model=self.model, prompt=["ab", "cd"], n=2, best_of=2, **SHORT)
        assert [choice.index for choice in whole.choices] == [0, 1, 2, 3]
        by_ids = self.complete(model=self.model, prompt=[[7, 8], [9]], **SHORT)
        assert len(by_ids.choices) == 2
        stream = self.complete(model=self.model, prompt=["ab", "cd"], n=2, stream=True, **SHORT)
        assert joined(list(stream)) == [choice.text for choice in whole.choices]

    def step_echo(self) -> None:
        asked = {"model": self.model, "prompt": "abc", "temperature": 0}
        echoed = self.complete(**asked, echo=True, max_tokens=4, logprobs=2).choices[0]
        plain = self.complete(**asked, max_tokens=4).choices[0]
        assert echoed.text == "abc" + plain.text
        logprobs = echoed.logprobs
        assert logprobs.token_logprobs[0] is None
        assert len(logprobs.tokens) == len(logprobs.top_logprobs) == len(logprobs.text_offset)
        scored = self.complete(**asked, echo=True, max_tokens=0, logprobs=0)
        assert (scored.choices[0].text, scored.usage.completion_tokens) == ("abc", 0)

    def step_raw(self) -> None:
        raw = self.client.completions.with_raw_response.create(
            model=self.model, prompt="ab", max_tokens=2
        )
        assert raw.headers["content-type"] == "application/json"
        assert raw.parse().choices[0].finish_reason == "length"

    def step_async(self) -> None:
        async def go() -> list[str]:
            create: Any = self.later.completions.create
            async with self.later:
                whole = await create(model=self.model, prompt="ab", **SHORT)
                text = ""
                async for piece in await create(
                    model=self.model, prompt="ab", stream=True, **SHORT
                ):
                    text += piece.choices[0].text
                return [text, whole.choices[0].text]

        one, other = asyncio.run(go())
        assert one == other

    def step_errors(self) -> None:
        self._refused(openai.NotFoundError, "model", 404, model="other", prompt="a")
        for name, value in {
            "max_tokens": -1,
            "n": 1000,
            "logprobs": 99,
            "suffix": "x",
            "temperature": -1,
            "logit_bias": {"99999999": 1},
            "prompt": "",
        }.items():
            asked = {"model": self.model, "prompt": "a", name: value}
            self._refused(openai.BadRequestError, name, 400, **asked)
        tools = [{"type": "function", "function": {"name": "f", "parameters": {}}}]
        found = caught(lambda: self.chat(model=self.model, messages=[USER], tools=tools))
        assert isinstance(found, openai.BadRequestError)
        assert found.param == "tools"

    def _refused(
        self, kind: type[openai.APIStatusError], param: str, status: int, **asked: Any
    ) -> None:
        found = caught(lambda: self.complete(**asked))
        assert isinstance(found, kind), (param, found)
        assert (found.param, found.status_code) == (param, status), found


def caught(ask: Callable[[], object]) -> openai.APIError | None:
    """The error that an answer is."""
    try:
        ask()
    except openai.APIError as error:
        return error
    return None


def joined(pieces: Sequence[Any]) -> list[str]:
    """The text of each choice of a stream."""
    texts: dict[int, str] = {}
    for piece in pieces:
        for choice in piece.choices:
            text = choice.text if hasattr(choice, "text") else choice.delta.content
            texts[choice.index] = texts.get(choice.index, "") + (text or "")
    return [texts[index] for index in sorted(texts)]


def main() -> None:
    """All steps, a line each."""
    print("openai", openai.__version__)
    for name, step in Tour(sys.argv[1]).steps():
        step()
        print("ok", name)


if __name__ == "__main__":
    main()
