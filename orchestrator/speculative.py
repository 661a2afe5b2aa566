"""vLLM's `--speculative-config`, word for word: what its keys are called here, and which of them mean nothing here."""

import json
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from orchestrator.dotted import FLAG
from orchestrator.settings import ConfigError, given

METHODS: Final[Mapping[str, str]] = {
    "dflash": "dflash",
    "draft_model": "standalone",
    "dspark": "dspark",
    "eagle": "eagle3",
    "eagle3": "eagle3",
    "ngram": "ngram",
    "suffix": "suffix",
}
"""vLLM's names of methods, and ours."""

UNSUPPORTED: Final[Mapping[str, tuple[object, ...]]] = {
    "attention_backend": (None,),
    "code_revision": (None,),
    "disable_eagle_block_drop": (False,),
    "disable_padded_drafter_batch": (False,),
    "draft_load_config": (None,),
    "draft_tensor_parallel_size": (None, 1),
    "dspark_draft_topk": (None,),
    "enforce_eager": (None, True, False),
    "index_share_for_mtp_iteration": (None,),
    "kv_cache_dtype": (None, "auto"),
    "moe_backend": (None,),
    "num_speculative_tokens_per_batch_size": (None,),
    "parallel_drafting": (False,),
    "quantization": (None,),
    "revision": (None,),
    "tensor_parallel_size": (None,),
    "use_local_argmax_reduction": (False,),
}
"""Keys that are known but have no meaning here, with the values that ask for nothing."""

OTHER_METHODS: Final = frozenset(
    {"custom_class", "extract_hidden_states", "medusa", "mlp_speculator", "mtp", "ngram_gpu"}
)


class SpeculativeConfig(BaseModel):
    """The keys that mean something here."""

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)

    method: str | None = None
    model: str | None = None
    num_speculative_tokens: int | None = Field(None, ge=1, le=256)
    enable_adaptive_verification: bool | None = None
    max_model_len: int | None = Field(None, ge=1)
    prompt_lookup_max: int | None = Field(None, ge=1)
    prompt_lookup_min: int | None = Field(None, ge=1)
    use_heterogeneous_vocab: bool | None = None
    rejection_sample_method: Literal["standard", "block", "synthetic"] | None = None
    draft_sample_method: Literal["greedy", "probabilistic"] | None = None
    synthetic_acceptance_rates: list[Annotated[float, Field(ge=0, le=1)]] | None = None
    synthetic_acceptance_length: float | None = Field(None, ge=1)
    suffix_decoding_max_cached_requests: int | None = Field(None, ge=0)
    suffix_decoding_max_spec_factor: float | None = Field(None, gt=0)
    suffix_decoding_max_tree_depth: int | None = Field(None, ge=1)
    suffix_decoding_min_token_prob: float | None = Field(None, ge=0, le=1)

    @property
    def named(self) -> str:
        """The method, as vLLM calls it; a model alone is a draft model."""
        return self.method or ("draft_model" if self.model else "")

    @property
    def rule(self) -> str | None:
        """Ours for its way to test drafts; with guesses that are certain, `match` has the law of its standard one."""
        if self.rejection_sample_method in {"block", "synthetic"}:
            return self.rejection_sample_method
        return "ratio" if self.draft_sample_method == "probabilistic" else None

    @model_validator(mode="after")
    def _agrees(self) -> "SpeculativeConfig":
        if not self.named:
            raise ValueError("method: it must be said, or a model")
        if self.named not in METHODS:
            known = f"there is {', '.join(sorted(METHODS))}"
            kind = "not supported" if self.named in OTHER_METHODS else "no method"
            raise ValueError(f"method: {self.named!r} is {kind}; {known}")
        if self.named in _MATCHING and self.model not in {None, self.named, f"[{self.named}]"}:
            raise ValueError(f"model: {self.named} has none")
        for name in self.model_fields_set:
            owner = _OWNERS.get(name.partition("_")[0])
            if owner not in {None, self.named} and getattr(self, name) is not None:
                raise ValueError(f"{name}: only with method {owner}")
        if self.suffix_decoding_max_cached_requests:
            text = "counts requests; drafter.suffix.store_tokens counts tokens"
            raise ValueError(f"suffix_decoding_max_cached_requests: {text}; only 0 is supported")
        if (self.prompt_lookup_min or 1) > (self.prompt_lookup_max or self.prompt_lookup_min or 1):
            raise ValueError("prompt_lookup_min: it is more than prompt_lookup_max")
        return self

    @model_validator(mode="after")
    def _has_curve_for_a_reason(self) -> "SpeculativeConfig":
        if self.rejection_sample_method != "synthetic":
            for name in ("synthetic_acceptance_rates", "synthetic_acceptance_length"):
                if getattr(self, name) is not None:
                    raise ValueError(f"{name}: only with rejection_sample_method synthetic")
        return self


_MATCHING: Final = frozenset({"ngram", "suffix"})
"""Methods that match text and have no model."""

_OWNERS: Final[Mapping[str, str]] = {
    "prompt": "ngram",
    "suffix": "suffix",
    "use": "draft_model",
}
"""Which method a key belongs to, by how it begins."""


def merged(flags: Mapping[str, Any], texts: Sequence[str]) -> Mapping[str, Any]:
    """The flags with what vLLM's one says, however often; a ConfigError where two say the same thing."""
    if not texts:
        return flags
    ours = settings(*texts)
    known = given(flags)
    for name in ours:
        if known.get(name) is not None:
            flag = name.replace("_", "-")
            raise ConfigError(f"--{flag} and {FLAG} say the same thing: leave one of them out")
    return {**flags, **ours}


def settings(*texts: str) -> Mapping[str, Any]:
    """Our configuration for what was said; a ConfigError names the key at fault."""
    said: dict[str, Any] = {}
    for text in texts:
        part = _object(text)
        for name in part.keys() & said.keys():
            raise ConfigError(f"{FLAG}: {name} is said twice")
        said |= part
    for name in said.keys() - SpeculativeConfig.model_fields.keys():
        if name not in UNSUPPORTED:
            near = get_close_matches(name, [*SpeculativeConfig.model_fields, *UNSUPPORTED], n=1)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            raise ConfigError(f"{FLAG}: there is no key {name!r}{hint}")
        if not any(
            type(said[name]) is type(one) and said[name] == one for one in UNSUPPORTED[name]
        ):
            raise ConfigError(f"{FLAG}: {name} {said[name]!r} is not supported")
        del said[name]
    try:
        return given(_ours(SpeculativeConfig.model_validate(said)))
    except ValidationError as error:
        fault = error.errors(include_url=False)[0]
        path = "".join(f"{part}: " for part in fault["loc"])
        raise ConfigError(f"{FLAG}: {path}{fault['msg'].removeprefix('Value error, ')}") from error


def _object(text: str) -> dict[str, Any]:
    try:
        said = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{FLAG} is no JSON: {error}") from error
    if not isinstance(said, dict):
        raise ConfigError(f"{FLAG} is no JSON object")
    return said


def _ours(said: SpeculativeConfig) -> dict[str, Any]:
    ngram: dict[str, Any] = {
        "min_match": said.prompt_lookup_min or (said.prompt_lookup_max and 1),
        "max_match": said.prompt_lookup_max or said.prompt_lookup_min,
    }
    suffix: dict[str, Any] = {
        "max_match": said.suffix_decoding_max_tree_depth,
        "factor": said.suffix_decoding_max_spec_factor,
        "offset": None if said.suffix_decoding_max_spec_factor is None else 0.0,
        "min_probability": said.suffix_decoding_min_token_prob,
        "store_tokens": said.suffix_decoding_max_cached_requests,
    }
    return {
        "method": METHODS[said.named],
        "draft": None if said.named in _MATCHING else said.model,
        "draft_length": said.num_speculative_tokens,
        "verifier": {
            "planner": {"name": "budget" if said.enable_adaptive_verification else None},
            "rule": said.rule,
            "synthetic": {
                "rates": said.synthetic_acceptance_rates,
                "length": said.synthetic_acceptance_length,
            },
        },
        "drafter": {
            "context": said.max_model_len,
            "draft_sample_method": said.draft_sample_method,
            "ngram": ngram,
            "suffix": suffix,
            "standalone": {"use_heterogeneous_vocab": said.use_heterogeneous_vocab},
        },
    }
