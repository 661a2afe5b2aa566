"""`grpc.health.v1` on a plain port of its own: whether a process would take work now. Imported where one is wanted."""

from concurrent.futures import ThreadPoolExecutor
from typing import Final

import grpc
from grpc_health.v1 import health
from grpc_health.v1.health_pb2 import HealthCheckResponse
from grpc_health.v1.health_pb2_grpc import add_HealthServicer_to_server

from protocol.config import HealthConfig

WORKERS: Final = 2
LAST_WORDS: Final = 0.2
"""Seconds for those who watch to hear the end."""


class Health:
    """Not serving until somebody tells otherwise. `role` is the service's other name, beside the empty one.

    An OSError if the port cannot be had.
    """

    def __init__(self, role: str, config: HealthConfig) -> None:
        self._names = ("", role)
        self._servicer = health.HealthServicer(
            experimental_non_blocking=True,
            experimental_thread_pool=ThreadPoolExecutor(WORKERS, "health"),
        )
        self._serving = True
        self.tell(serving=False)
        self._server = grpc.server(
            ThreadPoolExecutor(WORKERS, "health-calls"), options=[("grpc.so_reuseport", 0)]
        )
        add_HealthServicer_to_server(self._servicer, self._server)
        host = f"[{config.host}]" if ":" in config.host else config.host
        try:
            port = self._server.add_insecure_port(f"{host}:{config.port}")
        except RuntimeError as error:
            text = f"cannot listen on {config.host} port {config.port} for health: {error}"
            raise OSError(text) from error
        self.address = f"{host}:{port}"
        self._server.start()

    def tell(self, *, serving: bool) -> None:
        """From now on; costs nothing where nothing changes."""
        if serving == self._serving:
            return
        self._serving = serving
        status = HealthCheckResponse.SERVING if serving else HealthCheckResponse.NOT_SERVING
        for name in self._names:
            self._servicer.set(name, status)

    def close(self) -> None:
        """Nobody is answered any more."""
        self._servicer.enter_graceful_shutdown()
        self._server.stop(LAST_WORDS).wait()
