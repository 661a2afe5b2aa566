"""One message of every kind, and the bytes that they were when this file was made.

`python -m tests.protocol.golden` writes `golden.txt` anew. Do that only for what is new: a line that changes is a
peer that can no longer be understood.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from protocol.codec import Codec, Kind
from protocol.config import LinkConfig
from protocol.messages import (
    Abort,
    AnyMessage,
    Blob,
    CorpusAdd,
    CorpusEntry,
    CorpusList,
    CorpusRemove,
    CorpusReport,
    Done,
    DraftClose,
    DraftContext,
    DraftSync,
    DraftTailStream,
    Emit,
    Ending,
    Facts,
    Fingerprint,
    Grammar,
    Heartbeat,
    Hello,
    Histogram,
    KvAbort,
    KvAccept,
    KvChunk,
    KvCredit,
    KvOffer,
    KvTaken,
    Limits,
    Parcel,
    Piece,
    Refuse,
    Report,
    Reset,
    Sampling,
    Scored,
    Statistics,
    Submit,
    VerifyCommit,
    Welcome,
    Window,
)
from protocol.tensor import Tensor

FILE: Final = Path(__file__).with_name("golden.txt")
HIDDEN: Final = Tensor("bfloat16", (2, 3), bytes(range(12)))
IDS: Final = Tensor("int32", (1, 2), bytes(range(8)))
BYTES: Final = Tensor("uint8", (12,), bytes(range(12)))
PROBS: Final = Tensor("float32", (1, 2), bytes(range(8, 16)))

MESSAGES: Final[Mapping[str, AnyMessage]] = {
    "hello": Hello(
        dial=2**64 - 1,
        role="verifier",
        node_id="verifier-0",
        fingerprint=Fingerprint("w", "t", 32000),
        adapters=("law", "med"),
        window=Window(16, 1 << 20),
        features=("hidden",),
    ),
    "hello-short": Hello(dial=1, role="front", node_id="front-0"),
    "welcome": Welcome(
        dial=7,
        link=9,
        role="drafter",
        node_id="drafter-0",
        window=Window(8, 65536),
        limits=Limits(2048, 64, 32),
        method="suffix",
        needs=("hidden",),
        features=("parents",),
        fingerprint=Fingerprint("w2", "t", 32000),
    ),
    "heartbeat": Heartbeat("draining", 3, 1_500_000, 1_400_000, 2_500),
    "refuse-link": Refuse("link"),
    "refuse": Refuse("full", "64 mirrors are open", 12, 3, "tokens"),
    "report": Report(
        "verifier-0",
        "verifier",
        7,
        Facts(
            {"rounds": {"": 5}, "plain_rounds": {"late": 1, "no_tail": 0}},
            {"round_trip_seconds": {"drafter-0": 0.25}},
            {"step_seconds": Histogram((0.5, 1.0), (1, 2, 0), 2.5)},
        ),
    ),
    "report-short": Report("drafter-0", "drafter", 1),
    "blob": Blob("sha", 4, 1024, b"\x00\xff\x10"),
    "submit": Submit(
        request=12,
        tokens=(1, 200, 70000),
        ending=Ending(64, 2, ignore_eos=True, stop=("\n\n", "Ω"), stop_token_ids=(5,)),
        sampling=Sampling(
            0.5, 40, 0.75, 0.125, 2**63, 1.5, 0.25, -0.5, ((7, -2.5),), (1, 2), ((3, 4), (5,))
        ),
        choices=2,
        adapter="law",
        priority=-1,
        deadline=1.5,
        trace="00-aa-bb-01",
        logprobs=2,
        prompt_logprobs=0,
        grammar=Grammar("regex", "a+é"),
    ),
    "submit-short": Submit(request=1, tokens=(1,), ending=Ending(1)),
    "emit": Emit(
        12, 1, (5, 6), "hé", (True, False), (Scored(-0.5, ((5, -0.5),)), Scored(-2.0)), ()
    ),
    "done": Done(12, 1, "stop", 3, 2, Statistics(1, 4, 1, 16, ((4, 1, 1),)), "why"),
    "abort": Abort(12, "client gone"),
    "draft-sync": DraftSync(
        request=12,
        epoch=2,
        prompt=(1, 2, 3),
        output=(4,),
        max_ahead=17,
        sampling=Sampling(seed=3),
        adapter="law",
        choice=1,
        confidences=False,
        slice=8,
        trace="tr",
        hidden_from=2,
        hidden=HIDDEN,
    ),
    "draft-sync-short": DraftSync(12, 2, (1, 2, 3), (), 17),
    "draft-context": DraftContext(12, 2, 2, HIDDEN),
    "verify-commit": VerifyCommit(12, 2, 1, (8, 9), 19, 3, HIDDEN),
    "verify-commit-short": VerifyCommit(12, 2, 1, (8,), 19),
    "draft-tail": DraftTailStream(12, 2, 1, 3, (7, 8), (0.5, 0.25), IDS, PROBS, (-1, 0)),
    "draft-tail-short": DraftTailStream(12, 2, 1, 3, ()),
    "draft-close": DraftClose(12, 2, "stop"),
    "kv-offer": KvOffer(12, 2, (5, 6, 7), 0, 2, b"layout", ("shm", "zmq"), "law", "00-1-1-01"),
    "kv-accept": KvAccept(12, 2, "shm", b"hint", b"layout"),
    "kv-chunk": KvChunk(12, 2, Piece(0, 3, 16, 32), Parcel(1, 12, 2**64 - 1, BYTES)),
    "kv-chunk-elsewhere": KvChunk(12, 2, Piece(0, 3, 16, 32), Parcel(1, 12)),
    "kv-credit": KvCredit((1, 2)),
    "kv-taken": KvTaken(12, 2),
    "kv-abort": KvAbort(12, 2, "preempted"),
    "corpus-add": CorpusAdd("docs", ((1, 2), (3,)), append=True),
    "corpus-remove": CorpusRemove("docs"),
    "corpus-list": CorpusList(),
    "corpus-report": CorpusReport((CorpusEntry("docs", 2, 3, ready=True),), "none"),
    "reset": Reset(),
}


def payload(message: AnyMessage) -> bytes:
    """The payload of a frame that holds this message alone."""
    return bytes(Codec(LinkConfig()).encode(Kind.DATA, 1, 1, 0, (message,))[1])


if __name__ == "__main__":
    lines = [f"{name} {payload(message).hex()}\n" for name, message in MESSAGES.items()]
    FILE.write_text("".join(lines))
