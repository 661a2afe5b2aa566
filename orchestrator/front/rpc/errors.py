"""Errors as gRPC clients see them: a code, and `google.rpc` details with the field, the reason and when to retry."""

from collections.abc import Mapping
from typing import Any, Final

import grpc
from google.protobuf.any_pb2 import Any as Packed
from google.protobuf.duration_pb2 import Duration
from google.rpc.error_details_pb2 import BadRequest, ErrorInfo, RetryInfo
from google.rpc.status_pb2 import Status
from grpc_status.rpc_status import to_status

from orchestrator.front.errors import ApiError

DOMAIN: Final = "draftmesh"
CODES: Final[Mapping[int, grpc.StatusCode]] = {
    400: grpc.StatusCode.INVALID_ARGUMENT,
    401: grpc.StatusCode.UNAUTHENTICATED,
    404: grpc.StatusCode.NOT_FOUND,
    409: grpc.StatusCode.ALREADY_EXISTS,
    412: grpc.StatusCode.FAILED_PRECONDITION,
    429: grpc.StatusCode.RESOURCE_EXHAUSTED,
    499: grpc.StatusCode.CANCELLED,
    503: grpc.StatusCode.UNAVAILABLE,
}
"""What HTTP statuses are called here; any other is a fault of ours."""


def status(error: ApiError) -> Any:  # noqa: ANN401
    """Code, text and trailing metadata."""
    code = CODES.get(error.status, grpc.StatusCode.INTERNAL)
    details = [ErrorInfo(reason=(error.code or code.name).upper(), domain=DOMAIN)]
    if error.param:
        violation = BadRequest.FieldViolation(field=error.param, description=error.text)
        details.append(BadRequest(field_violations=[violation]))
    if error.retry is not None:
        wait = Duration()
        wait.FromNanoseconds(int(error.retry * 1e9))
        details.append(RetryInfo(retry_delay=wait))
    told = Status(code=code.value[0], message=error.text)
    for each in details:
        packed = Packed()
        packed.Pack(each)
        told.details.append(packed)
    return to_status(told)


async def refuse(context: grpc.aio.ServicerContext, error: ApiError) -> None:
    """End the call with it."""
    told = status(error)
    await context.abort(told.code, told.details, told.trailing_metadata)
