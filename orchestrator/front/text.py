"""From text to token ids: the tokenizer and the chat template of the model's folder, without torch."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from jinja2.exceptions import TemplateError
from transformers import PreTrainedTokenizerFast

from orchestrator.front.errors import ApiError
from orchestrator.front.schema import ChatMessage

LONG: Final = 4096
"""Characters from which on a text is tokenised in another thread."""


class Tokenizer:
    """Safe to use from several threads."""

    def __init__(self, folder: Path) -> None:
        # The class is named so that nothing in the folder decides what is imported.
        self._tokenizer: Any = PreTrainedTokenizerFast.from_pretrained(
            str(folder), local_files_only=True, trust_remote_code=False
        )
        self._backend: Any = self._tokenizer.backend_tokenizer
        self._backend.no_truncation()
        self._backend.no_padding()

    async def encode(self, text: str, *, special: bool = True) -> tuple[int, ...]:
        """Token ids; `special` adds what the model wants around a plain text."""
        if len(text) < LONG:
            return self._encode(text, special)
        return await asyncio.to_thread(self._encode, text, special)

    async def chat(self, messages: Sequence[ChatMessage]) -> tuple[int, ...]:
        """Token ids of a conversation, ready for the assistant's next words."""
        return await self.encode(self.render(messages), special=False)

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

    def _encode(self, text: str, special: bool) -> tuple[int, ...]:
        return tuple(self._backend.encode(text, add_special_tokens=special).ids)
