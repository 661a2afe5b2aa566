"""What an operator may set about links and frames."""

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
