"""`transformers` behind HTTP: streaming chat as OpenAI has it, one request at a time, by `generate` with a streamer.

python -m orchestrator.bench.generate_server --model FOLDER --port PORT --threads N
"""

import argparse
import asyncio
import copy
import json
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any, Final

import torch
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route
from tokenizers.decoders import DecodeStream
from transformers import AutoModelForCausalLM, AutoTokenizer
from transformers.generation.streamers import BaseStreamer

DONE: Final = "data: [DONE]\n\n"


class Tokens(BaseStreamer):  # type: ignore[misc]
    """Hands every token over to the event loop as it comes; None is the end."""

    def __init__(self) -> None:
        self.queue: asyncio.Queue[int | None] = asyncio.Queue()
        self._loop = asyncio.get_running_loop()
        self._prompt_seen = False

    def put(self, value: torch.Tensor) -> None:
        if not self._prompt_seen:  # the first call brings the prompt
            self._prompt_seen = True
            return
        for token in value.flatten().tolist():
            self._loop.call_soon_threadsafe(self.queue.put_nowait, token)

    def end(self) -> None:
        self._loop.call_soon_threadsafe(self.queue.put_nowait, None)


class Generating:
    """The model, and whose turn it is."""

    def __init__(self, folder: Path, dtype: str) -> None:
        self._tokenizer = AutoTokenizer.from_pretrained(folder)
        kind = getattr(torch, dtype)
        self._model = AutoModelForCausalLM.from_pretrained(folder, dtype=kind).eval()
        self._turn = asyncio.Lock()

    async def chat(self, request: Request) -> Response:
        return StreamingResponse(self._events(await request.json()), media_type="text/event-stream")

    async def _events(self, said: Mapping[str, Any]) -> AsyncIterator[str]:
        async with self._turn:
            prompt = self._tokenizer.apply_chat_template(
                said["messages"], add_generation_prompt=True, return_tensors="pt", return_dict=True
            )
            tokens = Tokens()
            working = asyncio.create_task(asyncio.to_thread(self._generate, prompt, said, tokens))
            decoder, count = DecodeStream(skip_special_tokens=True), 0
            while (token := await tokens.queue.get()) is not None:
                count += 1
                text = decoder.step(self._tokenizer.backend_tokenizer, token)
                if text:
                    yield event([{"index": 0, "delta": {"content": text}, "finish_reason": None}])
            await working
        reason = "length" if count == said["max_tokens"] else "stop"
        yield event([{"index": 0, "delta": {}, "finish_reason": reason}])
        length = prompt["input_ids"].shape[1]
        yield event([], {"prompt_tokens": length, "completion_tokens": count})
        yield DONE

    def _generate(
        self, prompt: Mapping[str, torch.Tensor], said: Mapping[str, Any], to: Tokens
    ) -> None:
        settings = copy.deepcopy(self._model.generation_config)
        settings.max_new_tokens = said["max_tokens"]
        settings.do_sample = bool(said.get("temperature"))
        if settings.do_sample:
            settings.temperature = said["temperature"]
            torch.manual_seed(said.get("seed", 0))
        if said.get("ignore_eos"):
            settings.eos_token_id = None
        try:
            with torch.inference_mode():
                self._model.generate(**prompt, generation_config=settings, streamer=to)
        except BaseException:
            to.end()  # whoever listens must not wait for ever; the task tells why
            raise


def event(choices: list[Mapping[str, Any]], usage: Mapping[str, int] | None = None) -> str:
    """One server-sent event."""
    body = {"object": "chat.completion.chunk", "choices": choices, "usage": usage}
    return f"data: {json.dumps(body)}\n\n"


async def health(_request: Request) -> Response:
    return JSONResponse({})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--dtype", choices=["float32", "bfloat16"], default="bfloat16")
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--threads", type=int, required=True)
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    serving = Generating(given.model, given.dtype)
    routes = [
        Route("/v1/chat/completions", serving.chat, methods=["POST"]),
        Route("/health", health),
    ]
    uvicorn.run(Starlette(routes=routes), host="127.0.0.1", port=given.port, log_level="warning")


if __name__ == "__main__":
    main()
