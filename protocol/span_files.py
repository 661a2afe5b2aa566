"""Spans kept in files of this machine, as collectors write them: a line of OTLP's JSON for each batch."""

import json
from base64 import b64decode
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from google.protobuf.json_format import MessageToDict
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult

LARGEST: Final = 8 << 20
"""Bytes after which a file is put aside as `.old`; the one that was there goes."""
NUMBERS: Final = frozenset({"traceId", "spanId", "parentSpanId"})
"""What OTLP's JSON writes in hexadecimal, other than protobuf's."""


class FileExporter(SpanExporter):
    """One file for each node, in a folder that is made when there is something to keep."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Nothing is kept where nothing can be written."""
        if not spans:
            return SpanExportResult.SUCCESS
        node = str(spans[0].resource.attributes.get("service.instance.id", "spans"))
        path = self._folder / f"{node.replace('/', '-')}.jsonl"
        line = json.dumps(_hexadecimal(MessageToDict(encode_spans(spans))), separators=(",", ":"))
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            if path.exists() and path.stat().st_size > LARGEST:
                path.replace(path.with_suffix(".old.jsonl"))
            with path.open("a", encoding="utf-8") as file:
                file.write(line + "\n")
        except OSError:
            return SpanExportResult.FAILURE
        return SpanExportResult.SUCCESS


def _hexadecimal(value: Any) -> Any:  # noqa: ANN401
    if isinstance(value, list):
        return [_hexadecimal(each) for each in value]
    if isinstance(value, dict):
        return {
            key: b64decode(each).hex() if key in NUMBERS else _hexadecimal(each)
            for key, each in value.items()
        }
    return value
