"""What an operator may set about a service that Ray places."""

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field


class RayConfig(BaseModel):
    """Where the cluster is, and what each process needs of it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    address: str = Field(
        "", description="of a cluster; empty: RAY_ADDRESS, else a cluster of this machine alone"
    )
    placement: Literal["spread", "pack", "strict-spread"] = Field(
        "spread",
        description="verifiers and drafters on different nodes, if there are enough; or not",
    )
    wait: float = Field(60.0, gt=0, description="seconds in which everything must have its place")
    silence: float = Field(
        30.0, ge=2, description="seconds after which an actor that answers nothing counts as lost"
    )
    verifier_cpus: int = Field(
        1, ge=1, description="cores of a verifier, or of each of its ranks: its threads"
    )
    verifier_gpus: float = Field(0, ge=0, description="of a verifier, or of each of its ranks")
    drafter_cpus: int = Field(1, ge=1, description="cores of a drafter: its threads")
    drafter_gpus: float = Field(0, ge=0)
    first_port: int = Field(
        0, ge=0, le=65000, description="mesh ports are this one and those above; 0: any"
    )
    object_store_bytes: int = Field(
        80 << 20,
        ge=80 << 20,
        description="of a cluster that is started here; no tensor is put there",
    )
