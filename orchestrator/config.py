"""The one configuration of a service, composed of those of its parts. Sources are read in `settings.py`."""

from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from drafter.config import DrafterConfig
from drafter.draws import manner
from drafter.proposers import PROPOSERS
from orchestrator.front.config import FrontConfig
from orchestrator.gpus import GpusConfig, Seat, seats
from orchestrator.ray_config import RayConfig
from protocol.config import LinkConfig, MeshConfig
from verifier.config import FeaturesConfig, VerifierConfig
from verifier.exactness import Confidence, Draws, Kind, judged

OWNED: Final[Mapping[str, Mapping[str, str]]] = {
    "verifier": {
        "node_id": "the launcher",
        "bind": "the launcher",
        "drafters": "the launcher",
        "prefill": "the launcher",
        "rank": "the launcher",
        "rendezvous": "the launcher",
        "model": "`target`",
        "drafts": "`method`",
        "dtype": "`dtype`",
        "device": "`gpus`",
        "gpu_share": "`gpus`",
        "trust_remote_code": "`trust_remote_code`",
        "link": "`link`",
        "mesh": "`mesh`",
        "otlp_traces_endpoint": "`otlp_traces_endpoint`",
        "planner.draft_length": "`draft_length`",
        "planner.overlap": "`overlap`",
        **{f"features.{key}": "`draft`" for key in FeaturesConfig.model_fields if key != "recent"},
    },
    "drafter": {
        "node_id": "the launcher",
        "bind": "the launcher",
        "method": "`method`",
        "model": "`draft`",
        "target": "`target`",
        "trust_remote_code": "`trust_remote_code`",
        "overlap": "`overlap`",
        "device": "`gpus`",
        "gpu_share": "`gpus`",
        "link": "`link`",
        "mesh": "`mesh`",
        "otlp_traces_endpoint": "`otlp_traces_endpoint`",
    },
    "front": {
        "node_id": "the launcher",
        "verifiers": "the launcher",
        "host": "`host`",
        "port": "`port`",
        "model": "`target`",
        "name": "`target`",
        "link": "`link`",
        "mesh": "`mesh`",
        "otlp_traces_endpoint": "`otlp_traces_endpoint`",
        "service": "the launcher",
    },
}
"""Keys of the parts that nobody sets there, and who decides them."""

LONGEST: Final = 16
"""Draft tokens a round of methods whose guesses cost nothing: the planner says how many of them are verified."""
WINDOWS: Final[Mapping[str, int]] = {"standalone": 5, "eagle3": 5, "dflash": 7, "dspark": 7}
"""The same of draft models: a chain that is longer takes longer to guess, a block has so many."""

ON_GPUS: Final = ("standalone",)
"""Drafting methods whose model can be on a GPU."""

_BLANK: Final[Mapping[str, Mapping[str, object]]] = {
    "verifier": {"model": Path()},
    "drafter": {},
    "front": {"model": Path(), "name": ""},
}


class Config(BaseModel):
    """A whole service: what is shared has one key here, the rest of a part lies in its section."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    target: str = Field(
        "smollm2-135m", description="name, folder or hub id of the model that is served"
    )
    draft: str = Field(
        "", description="name, folder or hub id of the draft model; empty: the target"
    )
    verifiers: int = Field(1, ge=1, le=64, description="verifier processes")
    drafters: int = Field(2, ge=0, le=256, description="drafter processes")
    prefill: int = Field(
        0, ge=0, le=64, description="prefill nodes: they compute long prompts for verifiers"
    )
    dtype: Literal["float32", "bfloat16"] = Field(
        "bfloat16", description="of target and draft model"
    )
    trust_remote_code: bool = Field(
        False, description="whether code that came with target or draft model may run"
    )
    gpus: GpusConfig = GpusConfig()
    method: str = Field("suffix", description="drafting method")
    draft_length: int | None = Field(
        None,
        ge=0,
        le=256,
        description="draft tokens verified at most a round; empty: what suits the method",
    )
    overlap: bool | None = Field(
        None,
        description="drafters run ahead of what is verified; off: draft, verify, draft, ...; "
        "empty: unless they compute on cores that are few",
    )
    host: str = Field("127.0.0.1", description="where clients are answered")
    port: int = Field(8000, ge=0, le=65535, description="0 lets the system pick one")
    otlp_traces_endpoint: str = Field(
        "", description="URL of an OTLP collector; empty: as the OTEL_ variables say, if they do"
    )
    log_format: Literal["text", "json"] = Field(
        "text", description="how processes log: lines for people, or a JSON object a line"
    )
    launcher: str = Field(
        "local", description="who starts the processes: local or ray; ray too if RAY_ADDRESS is set"
    )
    ray: RayConfig = RayConfig()
    verifier: VerifierConfig = VerifierConfig(model=Path())
    drafter: DrafterConfig = DrafterConfig()
    front: FrontConfig = FrontConfig(model=Path(), name="")
    link: LinkConfig = LinkConfig()
    mesh: MeshConfig = MeshConfig()

    @field_validator("method")
    @classmethod
    def _known_method(cls, method: str) -> str:
        if method not in PROPOSERS:
            raise ValueError(f"there is no method {method!r}{near(method, PROPOSERS)}")
        return method

    @field_validator("verifier", "drafter", "front", mode="before")
    @classmethod
    def _section(cls, value: Any, info: Any) -> Any:  # noqa: ANN401
        """Sections are written without the keys that are decided elsewhere."""
        if not isinstance(value, Mapping):
            return value
        for path, owner in OWNED[info.field_name].items():
            if _holds(value, path):
                raise ValueError(f"{info.field_name}.{path} is decided by {owner}")
        return {**_BLANK[info.field_name], **value}

    @model_validator(mode="after")
    def _goes_together(self) -> "Config":
        """The rule with its settings, the planner and the drafters; what is refused says why."""
        planner = self.verifier.planner.model_copy(update={"draft_length": self.window})
        verifier = self.verifier.model_copy(update={"planner": planner})
        drafters = manner(self.drafter.model_copy(update={"method": self.method}))
        kind, reason = judged(verifier, Draws(drafters.draws), Confidence(drafters.confidence))
        if kind is Kind.REFUSED:
            raise ValueError(f"verifier.rule {verifier.rule} with method {self.method}: {reason}")
        if self.gpus.drafter and self.method not in ON_GPUS:
            raise ValueError(
                f"gpus.drafter: method {self.method} computes on the CPU; {', '.join(ON_GPUS)} can take a GPU"
            )
        if self.prefill and self.verifier.tensor_parallel > 1:
            raise ValueError(
                f"prefill {self.prefill} with verifier.tensor_parallel {self.verifier.tensor_parallel}: "
                "pages that are handed over hold all heads, those of a rank some"
            )
        self.seats()
        return self

    def seats(self) -> dict[tuple[str, int], Seat]:
        """Which processes have a GPU, by role and number; spare drafters share like the last one."""
        counts = {"verifier": self.verifiers, "drafter": self.drafters}
        here = self.verifier.tensor_parallel if self.verifier.ranks == "together" else 1
        return seats(self.gpus, counts, {"verifier": here})

    @property
    def window(self) -> int:
        """Draft tokens verified at most a round."""
        length = self.draft_length
        return WINDOWS.get(self.method, LONGEST) if length is None else length

    def shown(self) -> dict[str, Any]:
        """The values that a user may set, as plain data."""
        values = self.model_dump(mode="json")
        for section, paths in OWNED.items():
            for path in paths:
                _remove(values[section], path)
        return values


def near(word: str, known: Mapping[str, object]) -> str:
    """`; did you mean ...?`, or what there is."""
    if close := get_close_matches(word, known, n=1):
        return f"; did you mean {close[0]!r}?"
    return f"; there is {', '.join(sorted(known))}" if known else ""


def _holds(values: Mapping[str, Any], path: str) -> bool:
    head, _, rest = path.partition(".")
    if head not in values:
        return False
    return not rest or (isinstance(values[head], Mapping) and _holds(values[head], rest))


def _remove(values: dict[str, Any], path: str) -> None:
    head, _, rest = path.partition(".")
    if rest:
        _remove(values[head], rest)
    else:
        values.pop(head, None)
