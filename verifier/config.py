"""What an operator may set about a verifier."""

from itertools import pairwise
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator

from kvtransfer.config import HandoverConfig
from protocol.config import HealthConfig, LinkConfig, MeshConfig


class SlotConfig(BaseModel):
    """Planner `schedule`: what it does from one batch size up to the next slot's."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    lengths: tuple[Annotated[int, Field(ge=0, le=256)], ...] = Field(
        min_length=1, description="draft lengths to choose from, rising"
    )
    smoothing: float = Field(0.2, gt=0, le=1, description="weight of the newest batch")
    every: int = Field(5, ge=1, description="batches between two decisions")
    warm_up: int = Field(10, ge=0, description="batches before the first decision")
    down: float = Field(0.0, description="added to what acceptance must fall to for a step down")
    up: float = Field(0.0, description="added to what acceptance must exceed for a step up")
    ceiling: float = Field(0.0, ge=0, description="longest length for a token accepted; 0: none")
    probe_every: int = Field(
        200, ge=1, description="batches at length 0 before the next length is tried"
    )

    @field_validator("lengths")
    @classmethod
    def _rise(cls, lengths: tuple[int, ...]) -> tuple[int, ...]:
        if any(later <= earlier for earlier, later in pairwise(lengths)):
            raise ValueError("lengths must rise")
        return lengths


class ScheduleConfig(BaseModel):
    """Planner `schedule`: a slot for each batch size."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    slots: dict[Annotated[int, Field(ge=1)], SlotConfig] = Field(
        default_factory=lambda: {
            1: SlotConfig(lengths=(1, 3, 7), down=-0.25),
            8: SlotConfig(lengths=(0, 1, 3)),
            32: SlotConfig(lengths=(0, 1)),
            64: SlotConfig(lengths=(0,)),
        },
        min_length=1,
        description="by the smallest batch size they are for",
    )


class HistoryConfig(BaseModel):
    """Planner `history`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    first: int = Field(5, ge=1, le=256, description="draft length of a request's first round")


class FailFastConfig(BaseModel):
    """Planner `failfast`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    chunk: int = Field(10, ge=1, le=256, description="tokens that are taken or left together")
    least: float = Field(0.45, ge=0, le=1, description="a confidence below it ends the window")


class LibraSpecConfig(BaseModel):
    """Planner `libraspec`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    alpha: float = Field(
        2.0, gt=0, le=100, description="tokens a token expected to be kept is worth"
    )
    block: int = Field(10, ge=1, le=256, description="tokens that a drafter makes at once")
    most: int = Field(60, ge=1, le=256, description="longest window; `draft_length` bounds it too")


class BudgetConfig(BaseModel):
    """Planner `budget`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    table: Path | None = Field(
        None, description="cost table; else the cache's for this machine and model"
    )
    least: float = Field(
        0.02,
        ge=0,
        lt=1,
        description="a request whose drafts bring fewer tokens a round goes without a drafter",
    )
    probe_steps: int = Field(12, ge=4, description="steps of a trial: of drafts, or of none")
    probe_every: int = Field(
        150, ge=8, description="steps between trials; doubles, to 16 times that, while they fail"
    )


class PlannerConfig(BaseModel):
    """How many tail tokens of a request are worth verifying."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str = Field("budget", description="a name in the planner table")
    draft_length: int = Field(8, ge=0, le=256, description="draft tokens verified at most a round")
    patience: float = Field(
        0.05,
        ge=0,
        description="seconds a step may wait for a tail that is expected, where drafts bring that much",
    )
    overlap: bool = Field(
        True,
        description="drafters run ahead of the window that is verified; off: one window, then its verdict",
    )
    halves: Literal["never", "auto", "always"] = Field(
        "auto",
        description="verify half of the requests while the other half is drafted; auto: where that is faster",
    )
    careful: bool = Field(
        False,
        description="whether no token may decide about itself; rules that use laws set it themselves",
    )
    trace: Path | None = Field(None, description="file that rounds are recorded in, for the bench")
    schedule: ScheduleConfig = ScheduleConfig()
    history: HistoryConfig = HistoryConfig()
    failfast: FailFastConfig = FailFastConfig()
    libraspec: LibraSpecConfig = LibraSpecConfig()
    budget: BudgetConfig = BudgetConfig()


class SchedulerConfig(BaseModel):
    """Continuous batching: what runs at once, and how long one forward may take."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    max_running: int = Field(64, ge=1, description="choices decoded at once")
    max_waiting: int = Field(1024, ge=0, description="choices that may wait; more are refused")
    forward_seconds: float = Field(0.25, gt=0, description="bound of one forward; chunks follow it")
    max_chunk: int = Field(512, ge=16, description="new tokens in one forward at most")


class FeaturesConfig(BaseModel):
    """What is kept of the target's hidden states for drafters that need them, and how it is sent.

    States are numbered: 0 is the embedding, k what layer k-1 left, one more than there are layers what the last norm
    makes of it. With `fc`, drafters get what it makes of them; the names are those of tensors in the `draft` folder.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    states: tuple[int, ...] = Field((), description="none: nothing is kept")
    dtype: Literal["float32", "bfloat16"] = "bfloat16"
    draft: Path = Field(Path(), description="checkpoint folder that holds the projection")
    fc: str = Field("", description="tensor of the projection; empty: states are sent as they are")
    part_norms: tuple[str, ...] = Field((), description="norms of the single states before fc")
    joint_norm: str = Field("", description="norm of all states before fc")
    norm: str = Field("", description="norm after fc")
    eps: float = Field(1e-6, gt=0, description="of these norms")
    recent: int = Field(
        0, ge=0, description="positions that a new mirror is told of; 0: all of them"
    )


class ThresholdConfig(BaseModel):
    """Rule `threshold`: both 1 keep the law of the target; anything lower keeps more drafts and changes it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    single: float = Field(1.0, gt=0, le=1, description="a draft this likely is always kept")
    accumulated: float = Field(
        1.0, ge=1e-9, le=1, description="chances of being kept are divided by it"
    )


class SyntheticConfig(BaseModel):
    """Rule `synthetic`: exactly one of the two. For benchmarks: the text means nothing."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    rates: tuple[Annotated[float, Field(ge=0, le=1)], ...] = Field(
        (), description="how often at least 1, 2, ... drafts are kept; may not rise"
    )
    length: float | None = Field(
        None, ge=1, description="mean number of tokens a round, the target's own among them"
    )


class DraftsConfig(BaseModel):
    """What may be taken for granted of the drafters: see `verifier/exactness.py`. The defaults hold for any."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    draws: Literal["one by one", "at once"] = Field(
        "one by one", description="how guesses are drawn, where they are"
    )
    confidence: Literal["none", "token", "largest", "head"] = Field(
        "token", description="what is said of how sure a drafter is of them"
    )


class VerifierConfig(BaseModel):
    """One verifier process."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    node_id: str = "verifier-0"
    bind: str = Field(
        "tcp://127.0.0.1:*", description="mesh address; * lets the system pick the port"
    )
    model: Path = Field(description="folder with config, safetensors and tokenizer")
    drafters: tuple[str, ...] = Field((), description="mesh addresses of drafters")
    prefill: tuple[str, ...] = Field((), description="mesh addresses of prefill nodes")
    dtype: Literal["float32", "bfloat16"] = "bfloat16"
    rule: str = Field("match", description="a name in the table of acceptance rules")
    slice: int = Field(
        64, ge=1, le=1024, description="tokens that a drafter may draw a guess from, at most"
    )
    drafts: DraftsConfig = DraftsConfig()
    threshold: ThresholdConfig = ThresholdConfig()
    synthetic: SyntheticConfig = SyntheticConfig()
    device: str = Field("cpu", description="cpu, cuda or cuda:N: where the target computes")
    gpu_share: float = Field(
        0.9, gt=0, le=1, description="of the GPU's memory: what this process may take at most"
    )
    graphs: bool = Field(
        True, description="on a GPU: capture forwards of all sizes at the start, and replay them"
    )
    attention: str = Field(
        "auto",
        description="a name in the table of attention backends; auto: what suits the device",
    )
    acceptance: str = Field(
        "auto", description="a name in the table of judges; auto: what suits the device"
    )
    implementation: Literal["auto", "transformers"] = Field(
        "auto", description="auto: the lean implementation where there is one"
    )
    trust_remote_code: bool = Field(
        False, description="whether code that came with the target may run"
    )
    threads: int = Field(2, ge=1, description="threads of the target's forward; of each rank")
    tensor_parallel: int = Field(
        1, ge=1, le=64, description="ranks of the target: each a process with some of its heads"
    )
    ranks: Literal["together", "apart"] = Field(
        "together",
        description="on one machine, where the verifier starts them; or each started by itself on its own",
    )
    rank: int = Field(0, ge=0, description="which of them this process is; 0 is the verifier")
    rendezvous: str = Field(
        "",
        description="HOST:PORT where ranks that are apart find rank 0",
    )
    rank_seconds: float = Field(
        60.0, gt=0, description="a rank that keeps a forward waiting for longer is lost"
    )
    page_size: int = Field(16, ge=1, description="positions a KV page holds")
    kv_dtype: Literal["auto", "fp8", "fp8_e4m3", "fp8_e5m2"] = Field(
        "auto",
        description="numbers that KV pages hold; auto: those of `dtype`; fp8 (fp8_e4m3) needs attention triton",
    )
    kv_bytes: int = Field(512 << 20, ge=1 << 20, description="memory for KV pages; of each rank")
    context: int = Field(0, ge=0, description="longest prompt + output; 0: the model's own")
    features: FeaturesConfig = FeaturesConfig()
    planner: PlannerConfig = PlannerConfig()
    scheduler: SchedulerConfig = SchedulerConfig()
    handover: HandoverConfig = HandoverConfig()
    otlp_traces_endpoint: str = Field("", description="where traces are sent")
    drain_seconds: float = Field(10.0, gt=0, description="a drain is cut short after this")
    health: HealthConfig = HealthConfig()
    link: LinkConfig = LinkConfig()
    mesh: MeshConfig = MeshConfig()
