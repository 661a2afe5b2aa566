"""What an operator may set about the front door."""

from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field

from protocol.config import LinkConfig


class FrontConfig(BaseModel):
    """One front-door process."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    node_id: str = "front-0"
    host: str = "127.0.0.1"
    port: int = Field(8000, ge=0, le=65535, description="0 lets the system pick one")
    model: Path = Field(description="folder with tokenizer and chat template")
    name: str = Field(description="how clients call the model")
    verifiers: tuple[str, ...] = Field((), description="mesh addresses of verifiers")
    max_body: int = Field(4 << 20, ge=1 << 10, description="bytes of a request body at most")
    max_requests: int = Field(
        1024, ge=1, description="prompts in flight; more are refused with 429"
    )
    prefix_page: int = Field(
        16, ge=1, description="tokens of a page when shared prefixes are compared"
    )
    prefix_memory: int = Field(65536, ge=0, description="pages remembered for each verifier")
    prefix_slack: int = Field(
        4, ge=0, description="how much busier a verifier may be and still win by a shared prefix"
    )
    drain_seconds: float = Field(10.0, gt=0, description="a drain is cut short after this")
    link: LinkConfig = LinkConfig()
