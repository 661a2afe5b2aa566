"""What an operator may set about the front door."""

from pathlib import Path
from typing import Final, Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue, SecretStr, model_validator

from protocol.config import HealthConfig, LinkConfig, MeshConfig

KEY_VARIABLE: Final = "DRAFTMESH_FRONT__API_KEY"
"""Where the process finds its key: command lines can be read by others."""


class FrontConfig(BaseModel):
    """One front-door process."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    node_id: str = "front-0"
    host: str = "127.0.0.1"
    port: int = Field(8000, ge=0, le=65535, description="0 lets the system pick one")
    grpc_port: int | None = Field(
        None, ge=0, le=65535, description="where gRPC clients are answered; 0 lets the system pick"
    )
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
    per_request_spec_decode_metrics: Literal["none", "summary", "detailed"] = Field(
        "summary", description="what answers tell of speculation, in `metrics.speculative_decoding`"
    )
    api_key: SecretStr = Field(
        SecretStr(""),
        exclude=True,
        description="what clients must bring; several keys are separated by commas; empty: nothing",
    )
    key_rate: float = Field(0.0, ge=0, description="requests a second with one key; 0: no limit")
    key_burst: int = Field(
        16, ge=1, description="requests with one key that may come at once, where `key_rate` is set"
    )
    key_concurrent: int = Field(0, ge=0, description="requests in flight with one key; 0: no limit")
    tls_certificate: Path | None = Field(
        None, description="PEM file of the certificate chain: clients are answered over HTTPS"
    )
    tls_key: Path | None = Field(None, description="PEM file of the certificate's private key")
    service: dict[str, JsonValue] = Field(
        {}, description="what `/server_info` tells of the whole service's configuration"
    )
    metrics_open: bool = Field(True, description="whether the port of the API answers /metrics")
    metrics_without_key: bool = Field(
        False,
        description="whether /metrics and what the dashboard shows need no key where all else does",
    )
    dashboard: bool = Field(True, description="whether the port of the API has a /dashboard")
    metrics_port: int | None = Field(
        None, ge=0, le=65535, description="a port of its own for /metrics; 0 lets the system pick"
    )
    metrics_prefix: str = Field(
        "vllm:",
        pattern="^[a-zA-Z_:][a-zA-Z0-9_:]*$",
        description="what the names of metrics that vLLM has too begin with",
    )
    otlp_traces_endpoint: str = Field("", description="where traces are sent")
    drain_seconds: float = Field(10.0, gt=0, description="a drain is cut short after this")
    health: HealthConfig = HealthConfig()
    link: LinkConfig = LinkConfig()
    mesh: MeshConfig = MeshConfig()

    @model_validator(mode="after")
    def _both_or_neither(self) -> "FrontConfig":
        if (self.tls_certificate is None) != (self.tls_key is None):
            raise ValueError("tls_certificate and tls_key go together")
        return self

    @property
    def keys(self) -> tuple[str, ...]:
        """The API keys, if any."""
        written = self.api_key.get_secret_value().split(",")
        return tuple(key for each in written if (key := each.strip()))
