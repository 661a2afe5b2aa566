"""What an operator may set about links, frames and who gets in."""

from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field


class LinkConfig(BaseModel):
    """Times in seconds; windows in frames and payload bytes (see `docs/protocol.md`)."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    beat: float = Field(0.5, gt=0, description="something is said at least this often")
    silence: float = Field(3.0, gt=0, description="a link that is silent for longer is over")
    window_frames: int = Field(64, ge=2, description="unacknowledged data frames a reader allows")
    window_bytes: int = Field(
        8 << 20, ge=1 << 16, description="unacknowledged payload bytes a reader allows"
    )
    frame_bytes: int = Field(
        4 << 20, ge=1 << 12, description="largest MessagePack payload of a frame"
    )
    tensor_bytes: int = Field(64 << 20, ge=1 << 12, description="largest tensor frame")
    tensors: int = Field(256, ge=1, description="most tensor frames in a message")


class MeshConfig(BaseModel):
    """Who may speak with a node. Sockets on other addresses than loopback and ipc need one of the two."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    keys: Path | None = Field(
        None, description="folder of keys (`orchestrator keys`): only nodes that it allows get in"
    )
    insecure: bool = Field(False, description="let anybody in who reaches the port")


class HealthConfig(BaseModel):
    """Where `grpc.health.v1` says whether a process would take work now: in clear, without keys."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    host: str = Field("127.0.0.1", description="where it is asked")
    port: int | None = Field(
        None, ge=0, le=65535, description="nothing: nowhere; 0 lets the system pick one"
    )
