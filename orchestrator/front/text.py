"""From text to token ids and back: the tokenizer and the chat template of the model's folder, without torch."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from jinja2.exceptions import TemplateError
from transformers import PreTrainedTokenizerFast

from orchestrator.front.errors import ApiError
from orchestrator.front.schema import ChatMessage
from protocol.token_bytes import TokenBytes

LONG: Final = 4096
"""Characters from which on a text is tokenised in another thread."""


@dataclass(frozen=True, slots=True)
class Prompt:
    """What a request continues. The first `added` tokens are the tokenizer's, not the client's."""

    tokens: tuple[int, ...]
    text: str | None = None
    added: int = 0


class Tokenizer:
    """Safe to use from several threads, but for `bytes`."""

    def __init__(self, folder: Path) -> None:
        # The class is named so that nothing in the folder decides what is imported.
        self._tokenizer: Any = PreTrainedTokenizerFast.from_pretrained(
            str(folder), local_files_only=True, trust_remote_code=False
        )
        self._backend: Any = self._tokenizer.backend_tokenizer
        self._backend.no_truncation()
        self._backend.no_padding()
        self._longest = max(map(len, self._backend.get_vocab()), default=1)
        self.bytes = TokenBytes(self._backend)

    async def encode(self, text: str, *, context: int = 0, special: bool = True) -> Prompt:
        """A text as a prompt; `special` adds what the model wants around a plain text.

        What cannot fit into `context` tokens, by its mere length, is not tokenised: a ValueError.
        """
        if context and len(text) > context * self._longest:
            raise ValueError(f"{len(text)} characters are more than {context} tokens can hold")
        if len(text) < LONG:
            return self._encode(text, special)
        return await asyncio.to_thread(self._encode, text, special)

    def words(self, texts: Sequence[str]) -> tuple[tuple[int, ...], ...]:
        """Token ids of each text where it begins a word, and where it goes on with one; each of them once."""
        both = (form for text in texts for form in (text.lstrip(), " " + text.lstrip()))
        encoded = (self._encode(form, special=False).tokens for form in both)
        return tuple(dict.fromkeys(tokens for tokens in encoded if tokens))

    def decode(self, tokens: Sequence[int]) -> str:
        """The text of a prompt that came as token ids; marks for the model are written out."""
        text: str = self._backend.decode(list(tokens), skip_special_tokens=False)
        return text

    async def chat(self, messages: Sequence[ChatMessage], *, context: int = 0) -> Prompt:
        """A conversation as a prompt, ready for the assistant's next words."""
        if sum(len(message.text) for message in messages) < LONG and len(messages) < LONG // 64:
            rendered = self.render(messages)
        else:
            rendered = await asyncio.to_thread(self.render, messages)
        return await self.encode(rendered, context=context, special=False)

    def render(self, messages: Sequence[ChatMessage]) -> str:
        """The conversation as the model knows it; what the template does not allow is an ApiError."""
        plain = [
            {"role": "system" if each.role == "developer" else each.role, "content": each.text}
            for each in messages
        ]
        if self._tokenizer.chat_template is None:
            text = "this model has no chat template: use /v1/completions"
            raise ApiError(400, text, "messages", "no_chat_template")
        try:
            rendered: str = self._tokenizer.apply_chat_template(
                plain, tokenize=False, add_generation_prompt=True
            )
        except TemplateError as error:
            text = f"the chat template refuses these messages: {error}"
            raise ApiError(400, text, "messages", "invalid_value") from error
        return rendered

    def _encode(self, text: str, special: bool) -> Prompt:
        encoded = self._backend.encode(text, add_special_tokens=special)
        mask = encoded.special_tokens_mask
        added = mask.index(0) if 0 in mask else len(mask)
        return Prompt(tuple(encoded.ids), text, added)
