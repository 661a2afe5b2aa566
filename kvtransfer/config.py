"""What an operator may set about handing prompts over."""

from pydantic import BaseModel, ConfigDict, Field


class HandoverConfig(BaseModel):
    """Every state of a hand-over ends after some seconds; whatever did not arrive is computed by the verifier."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    least: int = Field(
        256, ge=1, description="prompt tokens to compute below which nothing is handed over"
    )
    jobs: int = Field(8, ge=1, description="hand-overs of one verifier with one prefill node")
    queue: int = Field(
        16384, ge=1, description="tokens that wait at a prefill node from which on it is not asked"
    )
    accept_seconds: float = Field(1.0, gt=0, description="an offer without an answer is withdrawn")
    move_seconds: float = Field(
        5.0, gt=0, description="longest time without a new chunk after the first"
    )
    whole_seconds: float = Field(60.0, gt=0, description="longest time of a whole hand-over")
