"""What an operator may set about a drafter."""

from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from protocol.config import HealthConfig, LinkConfig, MeshConfig


class SuffixConfig(BaseModel):
    """Suffix matching (arXiv 2411.04975): how long a match must be, how much it may propose, what it remembers."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    min_match: int = Field(2, ge=1, description="shortest match that proposes")
    max_match: int = Field(32, ge=1, description="longest match that is looked for")
    factor: float = Field(
        2.0, gt=0, description="a match of m tokens proposes at most factor x m + offset"
    )
    offset: float = Field(1.0, description="see factor")
    min_probability: float = Field(
        0.02, ge=0, le=1, description="stop where the guess is less likely than this"
    )
    store_tokens: int = Field(
        1_000_000, ge=0, description="past output tokens remembered, oldest forgotten first"
    )
    corpus_tokens: int = Field(10_000_000, ge=0, description="document tokens held at most")


class NgramConfig(BaseModel):
    """Prompt lookup: the earliest earlier place of the last n tokens, longest n first."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    min_match: int = Field(2, ge=1)
    max_match: int = Field(5, ge=1)


class StandaloneConfig(BaseModel):
    """A language model of its own as drafter."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    use_heterogeneous_vocab: bool = Field(
        False, description="guess, greedily, what target and draft model can both say"
    )


class HiddenConfig(BaseModel):
    """Draft heads that read the target's hidden states."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    first: int = Field(
        3, ge=1, le=64, description="guesses after a verdict that a chain says at once"
    )
    projected: bool = Field(
        True, description="the verifier applies the head's fc, so that less travels, where it can"
    )
    layer_convention: Literal["", "in", "out"] = Field(
        "", description="whether layer ids name inputs or outputs; empty: as the dialect has it"
    )
    states: tuple[int, ...] = Field(
        (), description="the target's states, whatever the checkpoint says; see verifier.features"
    )
    constants: Path | None = Field(
        None,
        description="folder for what verifiers lend to a drafter without `target`: embedding and output matrix; "
        "empty: in the cache folder",
    )


class DrafterConfig(BaseModel):
    """One drafter process."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    node_id: str = "drafter-0"
    bind: str = Field(
        "tcp://127.0.0.1:*", description="mesh address; * lets the system pick the port"
    )
    method: str = Field("suffix", description="a name in the proposer table")
    max_ahead: int = Field(
        64, ge=0, description="guesses a mirror may hold, whatever a verifier asks"
    )
    max_requests: int = Field(1024, ge=1, description="mirrors at once")
    context: int = Field(
        0, ge=0, description="longest prompt + output that is drafted for; 0: the method's own"
    )
    threads: int = Field(
        1, ge=1, description="threads for the draft model, where the method has one"
    )
    model: Path | None = Field(
        None, description="folder of the draft model, for methods that have one"
    )
    target: Path | None = Field(
        None,
        description="folder of the target: its tokenizer, and what a draft head shares with it",
    )
    trust_remote_code: bool = Field(
        False, description="whether code that came with the draft model may run"
    )
    device: str = Field(
        "cpu", description="cpu, cuda or cuda:N: where a draft model or a head computes"
    )
    gpu_share: float = Field(
        0.9, gt=0, le=1, description="of the GPU's memory: what this process may take at most"
    )
    hidden: HiddenConfig = HiddenConfig()
    mixed: tuple[str, ...] = Field(
        ("suffix", "eagle3"), description="methods that method `mixed` chooses from"
    )
    overlap: bool = Field(
        True,
        description="chains are drafted a token a turn beside the verifier; off: all tokens in one turn",
    )
    dtype: Literal["float32", "bfloat16"] = "bfloat16"
    kv_bytes: int = Field(
        1 << 30, ge=1 << 16, description="memory for the KV pages of the draft model"
    )
    draft_sample_method: Literal["greedy", "probabilistic"] = Field(
        "greedy",
        description="probabilistic: guesses are drawn, where the verifier's rule can make use of it; "
        "greedy: each is a function of text and seed",
    )
    script: Path | None = Field(None, description="JSON file of the scripted or drawn proposer")
    suffix: SuffixConfig = SuffixConfig()
    ngram: NgramConfig = NgramConfig()
    standalone: StandaloneConfig = StandaloneConfig()
    otlp_traces_endpoint: str = Field("", description="where traces are sent")
    drain_seconds: float = Field(10.0, gt=0, description="a drain is cut short after this")
    health: HealthConfig = HealthConfig()
    link: LinkConfig = LinkConfig()
    mesh: MeshConfig = MeshConfig()

    @property
    def samples(self) -> bool:
        """Whether guesses of a model are drawn where a verifier takes laws."""
        return self.draft_sample_method == "probabilistic"

    @property
    def methods(self) -> tuple[str, ...]:
        """Those that may draft."""
        return self.mixed if self.method == "mixed" else (self.method,)
