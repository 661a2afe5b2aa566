"""What clients may say, parameter by parameter. Whatever is not here is refused by name (`orchestrator.front.parsing`).

`docs/api.md` is checked against these models: the descriptions are its text.
"""

from typing import Annotated, ClassVar, Final, Literal

from pydantic import BaseModel, Discriminator, Field, Tag, model_validator

from orchestrator.front.fields import (
    FAIL_FAST,
    LIKELIEST,
    LIST,
    MOST,
    TEXT,
    BadWords,
    Biases,
    Prompts,
    Stops,
    Tokens,
    branch,
    few,
)
from orchestrator.front.formats import (
    STRICT,
    Pattern,
    ResponseFormat,
    StructuredOutputs,
    of_format,
    of_outputs,
    of_regex,
)
from protocol.messages import Grammar

COMPLETION_TOKENS: Final = 16
"""What a plain completion gets when it does not say: the habit of this API."""


class StreamOptions(BaseModel):
    model_config = STRICT

    include_usage: bool | None = None
    """one more event before the last, without choices, with the usage of the whole request"""
    include_obfuscation: Literal[False] | None = None
    """events are not padded"""
    continuous_usage_stats: bool | None = None
    """every event has the usage so far"""


class Request(BaseModel):
    """What both kinds of completion share. None is the default, as if it had not been said."""

    model_config = STRICT
    scores_first: ClassVar[bool] = (
        False  # whether a stream may begin with what is said of the prompt
    )

    model: str | None = None
    """name of the model; none: the one that is served"""
    stream: bool | None = None
    """answer as server-sent events, as it comes"""
    stream_options: StreamOptions | None = None
    """only with `stream`"""
    n: int | None = Field(None, ge=1, le=128)
    """independent choices for each prompt (1); choices of one request are at most 128"""
    best_of: int | None = Field(None, ge=1, le=128)
    """must be equal to `n`"""
    max_tokens: int | None = Field(None, ge=1, le=MOST)
    """output tokens at most; prompt and output together fit the context (`max_model_len` in `/v1/models`)"""
    min_tokens: int | None = Field(None, ge=0, le=MOST)
    """output tokens before which nothing ends the output; end tokens cannot be drawn before"""
    stop: Stops | None = None
    """texts that end the output and are not part of it; also where they begin in one token and end in another"""
    stop_token_ids: Annotated[Tokens | None, Field(max_length=256)] = None
    """tokens that end the output"""
    include_stop_str_in_output: bool | None = None
    """the stop that ended the output is part of the text"""
    ignore_eos: bool | None = None
    """the model's own end tokens do not end the output"""
    temperature: float | None = Field(None, ge=0, le=100)
    """0 is greedy; otherwise logits are divided by it (1)"""
    top_p: float | None = Field(None, gt=0, le=1)
    """draw from the likeliest tokens that have this much probability together (1)"""
    top_k: int | None = Field(None, ge=-1, le=MOST)
    """draw from so many likeliest tokens; 0 and -1: from all (0)"""
    min_p: float | None = Field(None, ge=0, le=1)
    """draw from tokens at least this likely, relative to the likeliest (0)"""
    seed: int | None = Field(None, ge=-(2**63), lt=2**64)
    """the same seed, prompt and parameters give the same output, with drafts or without"""
    repetition_penalty: float | None = Field(None, gt=0, le=100)
    """above 1, tokens of prompt and output become less likely (1)"""
    presence_penalty: float | None = Field(None, ge=-2, le=2)
    """taken off the logit of every token that is in the output (0)"""
    frequency_penalty: float | None = Field(None, ge=-2, le=2)
    """taken off once for each time a token is in the output (0)"""
    logit_bias: Biases | None = None
    """by token id, written as text: added to the token's logit"""
    allowed_token_ids: Annotated[Tokens | None, Field(min_length=1, max_length=4096)] = None
    """no other token can be drawn"""
    bad_words: BadWords | None = None
    """texts that are not written: see "Bad words" """
    response_format: ResponseFormat | None = None
    """`text`, `json_object`, or `json_schema` with a `json_schema` of `schema` and `name`: see "Formats" """
    regex: Pattern | None = None
    """the whole output matches this regular expression"""
    structured_outputs: StructuredOutputs | None = None
    """one of `json` (a schema), `json_object`, `regex`, `choice` (a list of texts), `grammar` (Lark)"""
    prompt_logprobs: int | None = Field(None, ge=0, le=LIKELIEST)
    """log-probabilities of the prompt's tokens, and of so many likeliest ones; not with `stream`"""
    return_token_ids: bool | None = None
    """token ids of prompt and output, and which output tokens were drafts"""
    user: str | None = None
    """accepted, without effect"""

    @model_validator(mode="after")
    def _agrees(self) -> "Request":
        if self.stream_options and not self.stream:
            raise ValueError("stream_options: only with stream")
        if self.best_of is not None and self.best_of != (self.n or 1):
            raise ValueError("best_of: only the value of n is supported")
        if self.stream and self.prompt_logprobs is not None and not self.scores_first:
            raise ValueError("prompt_logprobs: not with stream")
        formats = (self.response_format, self.regex, self.structured_outputs)
        if sum(each is not None for each in formats) > 1:
            raise ValueError(
                "response_format: not beside regex or structured_outputs, and these not together"
            )
        return self

    @property
    def grammar(self) -> tuple[str, Grammar | None]:
        """What every output must be a text of, and the parameter that says so."""
        if self.regex is not None:
            return "regex", of_regex(self.regex)
        if self.structured_outputs is not None:
            return "structured_outputs", of_outputs(self.structured_outputs)
        wanted = self.response_format
        return "response_format", None if wanted is None else of_format(wanted)

    @property
    def likeliest(self) -> int | None:
        """How many likeliest tokens are wanted with every output token; None: no log-probabilities at all."""
        raise NotImplementedError

    @property
    def budget(self) -> tuple[str, int | None]:
        """Output tokens at most, and the parameter that says so; None: all that is left of the context."""
        raise NotImplementedError

    @property
    def echoes(self) -> bool:
        """Whether the prompt comes first in the answer."""
        return False


class CompletionRequest(Request):
    """`POST /v1/completions`."""

    prompt: Prompts
    """a text, token ids, or a list of up to 128 of either"""
    max_tokens: int | None = Field(None, ge=0, le=MOST)
    """output tokens at most (16); 0 only with `echo`: see "Scoring a prompt" """
    logprobs: int | None = Field(None, ge=0, le=LIKELIEST)
    """log-probabilities of the output's tokens, and of so many likeliest ones"""
    echo: bool | None = None
    """the prompt comes first in the text, and in `logprobs`"""

    @model_validator(mode="after")
    def _scores(self) -> "CompletionRequest":
        if self.max_tokens == 0 and not self.echo:
            raise ValueError("max_tokens: 0 only with echo")
        return self

    @property
    def likeliest(self) -> int | None:
        return self.logprobs

    @property
    def budget(self) -> tuple[str, int | None]:
        return "max_tokens", COMPLETION_TOKENS if self.max_tokens is None else self.max_tokens

    @property
    def echoes(self) -> bool:
        return bool(self.echo)


class CallRequest(CompletionRequest):
    """`draftmesh.v1.Inference.Generate`."""

    scores_first: ClassVar[bool] = True


class Part(BaseModel):
    model_config = STRICT

    type: Literal["text"]
    text: str


Content = Annotated[
    Annotated[str, Tag(TEXT)]
    | Annotated[list[Part], Field(max_length=4096), FAIL_FAST, few(4096), Tag(LIST)],
    Discriminator(branch),
]


class ChatMessage(BaseModel):
    """What an earlier answer holds beside its text may be sent back where it is empty."""

    model_config = STRICT

    role: Literal["system", "developer", "user", "assistant"]
    content: Content
    name: str | None = None
    refusal: None = None
    audio: None = None
    annotations: Annotated[list[None] | None, Field(max_length=0)] = None
    function_call: None = None
    tool_calls: Annotated[list[None] | None, Field(max_length=0)] = None

    @property
    def text(self) -> str:
        if isinstance(self.content, str):
            return self.content
        return "\n".join(part.text for part in self.content)


class ChatRequest(Request):
    """`POST /v1/chat/completions`."""

    messages: Annotated[
        list[ChatMessage], Field(min_length=1, max_length=4096), FAIL_FAST, few(4096)
    ]
    """the conversation: `role` is system, developer, user or assistant; `content` a text or a list of text parts"""
    max_completion_tokens: int | None = Field(None, ge=1, le=MOST)
    """the newer name of `max_tokens`, and stronger (all that is left of the context)"""
    logprobs: bool | None = None
    """log-probabilities of the output's tokens"""
    top_logprobs: int | None = Field(None, ge=0, le=LIKELIEST)
    """so many likeliest tokens beside each; only with `logprobs`"""

    @model_validator(mode="after")
    def _asks(self) -> "ChatRequest":
        if self.top_logprobs is not None and not self.logprobs:
            raise ValueError("top_logprobs: only with logprobs")
        return self

    @property
    def budget(self) -> tuple[str, int | None]:
        if self.max_completion_tokens is not None:
            return "max_completion_tokens", self.max_completion_tokens
        return "max_tokens", self.max_tokens

    @property
    def likeliest(self) -> int | None:
        return (self.top_logprobs or 0) if self.logprobs else None
