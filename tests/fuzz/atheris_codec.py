"""Coverage-guided fuzzing of the codec, for an environment of its own that has Atheris (CPython 3.11):

python -m venv /tmp/atheris && /tmp/atheris/bin/pip install atheris msgspec pydantic numpy
PYTHONPATH=. /tmp/atheris/bin/python tests/fuzz/atheris_codec.py -runs=1000000 -max_len=4096
"""

import sys

import atheris  # type: ignore[import-untyped,import-not-found,unused-ignore]

with atheris.instrument_imports(include=["protocol"]):
    from protocol.codec import Codec
    from protocol.config import LinkConfig
    from protocol.errors import PeerError

CODEC = Codec(LinkConfig(frame_bytes=1 << 12, tensor_bytes=1 << 12))


def one(data: bytes) -> None:
    """The bytes as a frame of up to four parts; what is read must be what its own encoding reads as."""
    taken = atheris.FuzzedDataProvider(data)
    parts = [taken.ConsumeBytes(32)]
    parts += [
        taken.ConsumeBytes(taken.ConsumeIntInRange(0, 512))
        for _ in range(taken.ConsumeIntInRange(0, 3))
    ]
    try:
        frame = CODEC.decode(parts)
    except PeerError:
        return
    again = CODEC.decode(CODEC.encode(*frame[:5]))
    if repr(again.messages) != repr(frame.messages):
        raise AssertionError(f"{frame.messages} became {again.messages}")


if __name__ == "__main__":
    atheris.Setup(sys.argv, one)
    atheris.Fuzz()
