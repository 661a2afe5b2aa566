"""Errors as clients see them: one shape for all of them, never a stack trace."""

import math
from collections.abc import Mapping
from typing import Any, Final

from orchestrator.front.messages import Failure

TYPES: Final[Mapping[int, str]] = {
    401: "authentication_error",
    429: "rate_limit_error",
    500: "server_error",
    503: "service_unavailable_error",
}
RETRY_AFTER: Final = 1.0
"""Seconds after which a client may come again, where nothing else is known."""


class ApiError(Exception):
    """A request that is answered with an error; `param` names the field at fault."""

    def __init__(
        self,
        status: int,
        text: str,
        param: str | None = None,
        code: str | None = None,
        after: float = RETRY_AFTER,
    ) -> None:
        super().__init__(text)
        self.status = status
        self.text = text
        self.param = param
        self.code = code
        self._after = after

    @classmethod
    def of(cls, failure: Failure) -> "ApiError":
        return cls(failure.status, failure.text, failure.param, failure.code)

    def named(self, names: Mapping[str, str]) -> "ApiError":
        """With the field at fault as the client wrote it."""
        param = self.param and names.get(self.param, self.param)
        return ApiError(self.status, self.text, param, self.code, self._after)

    @property
    def retry(self) -> float | None:
        """Seconds after which the same may succeed; None: it will not."""
        return self._after if self.status in {429, 503} else None

    @property
    def body(self) -> dict[str, Any]:
        kind = TYPES.get(self.status, "invalid_request_error")
        fields = {"message": self.text, "type": kind, "param": self.param, "code": self.code}
        return {"error": fields}

    @property
    def headers(self) -> dict[str, str]:
        return {} if self.retry is None else {"Retry-After": str(math.ceil(self.retry))}
