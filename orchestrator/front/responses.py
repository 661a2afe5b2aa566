"""What the service answers, as models: `/openapi.json` is made of them, and tests hold every answer against them.

A field with a default is only there where it was asked for, or where there is something to say.
"""

from typing import Any, Final, Literal

from pydantic import BaseModel, ConfigDict

STRICT: Final = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)
Finish = Literal["stop", "length"]


class ErrorBody(BaseModel):
    model_config = STRICT

    message: str
    type: str
    param: str | None
    code: str | None


class Error(BaseModel):
    model_config = STRICT

    error: ErrorBody


class PromptDetails(BaseModel):
    model_config = STRICT

    cached_tokens: int


class Usage(BaseModel):
    model_config = STRICT

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int
    prompt_tokens_details: PromptDetails | None = None


class SpeculativeDecoding(BaseModel):
    model_config = STRICT

    mean_acceptance_length: float
    draft_acceptance_rate: float
    acceptance_histogram: list[int]
    acceptance_histogram_by_draft_length: dict[str, list[int]]
    num_spec_steps: int
    num_accepted_draft_tokens: int
    num_draft_tokens: int
    num_spec_tokens: int
    per_step_accepted: list[int] = []
    per_step_drafted: list[int] = []


class Metrics(BaseModel):
    model_config = STRICT

    speculative_decoding: SpeculativeDecoding | None


class DraftCounts(BaseModel):
    """Of one choice: verdicts, draft tokens that were verified, and those of them that were kept."""

    model_config = STRICT

    rounds: int
    drafted: int
    accepted: int


class PromptLogprob(BaseModel):
    model_config = STRICT

    logprob: float
    rank: int | None
    decoded_token: str


class CompletionLogprobs(BaseModel):
    model_config = STRICT

    tokens: list[str]
    token_logprobs: list[float | None]
    top_logprobs: list[dict[str, float] | None]
    text_offset: list[int]


class TopToken(BaseModel):
    model_config = STRICT

    token: str
    logprob: float
    bytes: list[int]


class ChatToken(TopToken):
    top_logprobs: list[TopToken]


class ChatLogprobs(BaseModel):
    model_config = STRICT

    content: list[ChatToken]
    refusal: None


class _Choice(BaseModel):
    model_config = STRICT

    index: int
    token_ids: list[int] = []
    drafted: list[bool] = []


class CompletionChoice(_Choice):
    text: str
    logprobs: CompletionLogprobs | None
    finish_reason: Finish
    draftmesh: DraftCounts
    prompt_token_ids: list[int] = []
    prompt_logprobs: list[dict[str, PromptLogprob] | None] = []


class CompletionPieceChoice(_Choice):
    text: str
    logprobs: CompletionLogprobs | None
    finish_reason: Finish | None
    draftmesh: DraftCounts | None = None
    prompt_token_ids: list[int] = []


class Message(BaseModel):
    model_config = STRICT

    role: Literal["assistant"]
    content: str


class Delta(BaseModel):
    model_config = STRICT

    role: Literal["assistant"] | None = None
    content: str | None = None


class ChatChoice(_Choice):
    message: Message
    logprobs: ChatLogprobs | None
    finish_reason: Finish
    draftmesh: DraftCounts


class ChatPieceChoice(_Choice):
    delta: Delta
    logprobs: ChatLogprobs | None
    finish_reason: Finish | None
    draftmesh: DraftCounts | None = None


class _Head(BaseModel):
    model_config = STRICT

    id: str
    created: int
    model: str


class Completion(_Head):
    object: Literal["text_completion"]
    choices: list[CompletionChoice]
    usage: Usage
    metrics: Metrics | None = None


class CompletionPiece(_Head):
    """The data of one event of a stream."""

    object: Literal["text_completion"]
    choices: list[CompletionPieceChoice]
    usage: Usage | None = None
    metrics: Metrics | None = None


class ChatCompletion(_Head):
    object: Literal["chat.completion"]
    choices: list[ChatChoice]
    usage: Usage
    metrics: Metrics | None = None
    prompt_token_ids: list[int] = []
    prompt_logprobs: list[dict[str, PromptLogprob] | None] = []


class ChatPiece(_Head):
    """The data of one event of a stream."""

    object: Literal["chat.completion.chunk"]
    choices: list[ChatPieceChoice]
    usage: Usage | None = None
    metrics: Metrics | None = None
    prompt_token_ids: list[int] = []


class ModelCard(BaseModel):
    model_config = STRICT

    id: str
    object: Literal["model"]
    created: int
    owned_by: str
    max_model_len: int | None


class ModelList(BaseModel):
    model_config = STRICT

    object: Literal["list"]
    data: list[ModelCard]


class Health(BaseModel):
    model_config = STRICT


class Ready(BaseModel):
    model_config = STRICT

    ready: bool
    draining: bool
    verifiers: int
    drafters: int
    speculating: bool
    in_flight: int


class Version(BaseModel):
    model_config = STRICT

    version: str
    protocol: int


class ServerInfo(BaseModel):
    model_config = STRICT

    version: str
    protocol: int
    time: float
    model: str
    ready: bool
    draining: bool
    speculating: bool
    limits: dict[str, int | None]
    nodes: list[dict[str, Any]]
    api_key: bool
    front: dict[str, Any]
    config: dict[str, Any]
