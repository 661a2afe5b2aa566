"""The gRPC server of the front door, beside uvicorn in the same loop."""

from typing import Any, Final

import grpc
from grpc_reflection.v1alpha import reflection

from orchestrator.front.config import FrontConfig
from orchestrator.front.desk import Desk
from orchestrator.front.errors import ApiError
from orchestrator.front.keys import Keys, unknown
from orchestrator.front.rpc.errors import refuse
from orchestrator.front.rpc.servicer import Inference, untold
from orchestrator.front.server import LAST_WORDS
from orchestrator.front.stories import Story
from orchestrator.rpc.draftmesh_pb2 import DESCRIPTOR
from orchestrator.rpc.draftmesh_pb2_grpc import add_InferenceServicer_to_server

NAME: Final = DESCRIPTOR.services_by_name["Inference"].full_name
SENT: Final = 64 << 20
"""Bytes of a message that goes out at most: a prompt with token ids and log-probabilities fits."""
PINGS: Final = (
    ("grpc.keepalive_time_ms", 30_000),  # a client that is gone without a word is found out
    ("grpc.keepalive_timeout_ms", 10_000),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.min_ping_interval_without_data_ms", 5_000),  # clients may keep idle links
    ("grpc.http2.max_ping_strikes", 2),
)


class RpcServer:
    """Made in the loop that it serves in; an OSError if the port cannot be had."""

    def __init__(self, desk: Desk, port: int, story: Story | None = None) -> None:
        config = desk.config
        self._server = grpc.aio.server(
            interceptors=[Guard(desk.keys)] if desk.keys.counts else [],
            options=[
                *PINGS,
                ("grpc.max_receive_message_length", config.max_body),
                ("grpc.max_send_message_length", SENT),
                ("grpc.so_reuseport", 0),
            ],
        )
        add_InferenceServicer_to_server(Inference(desk, story or untold), self._server)
        reflection.enable_server_reflection((NAME, reflection.SERVICE_NAME), self._server)
        self.port = self._listen(config, port)

    @property
    def address(self) -> str:
        """Where clients find it."""
        return f"{self._host}:{self.port}"

    async def start(self) -> None:
        await self._server.start()

    async def stop(self) -> None:
        """Take no calls any more; those that run have `LAST_WORDS` seconds."""
        await self._server.stop(LAST_WORDS)

    def _listen(self, config: FrontConfig, port: int) -> int:
        self._host = f"[{config.host}]" if ":" in config.host else config.host
        where = f"{self._host}:{port}"
        try:
            if config.tls_certificate is None or config.tls_key is None:
                return int(self._server.add_insecure_port(where))
            pair = (config.tls_key.read_bytes(), config.tls_certificate.read_bytes())
            return int(self._server.add_secure_port(where, grpc.ssl_server_credentials([pair])))
        except RuntimeError as error:
            raise OSError(
                f"cannot listen on {config.host} port {port} for gRPC: {error}"
            ) from error


class Guard(grpc.aio.ServerInterceptor):  # type: ignore[misc]  # grpc has no types
    """Lets nobody in without a key, reflection included."""

    def __init__(self, keys: Keys) -> None:
        self._keys = keys
        self._refusal = grpc.unary_unary_rpc_method_handler(_refuse)

    async def intercept_service(self, continuation: Any, details: Any) -> Any:  # noqa: ANN401
        headers = dict(details.invocation_metadata)
        brought = headers.get("authorization", "")
        brought = brought.encode() if isinstance(brought, str) else brought
        return self._refusal if self._keys.meter(brought) is None else await continuation(details)


async def _refuse(_request: object, context: grpc.aio.ServicerContext) -> None:
    error: ApiError = unknown()
    await refuse(context, error)
