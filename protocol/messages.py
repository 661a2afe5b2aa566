"""The vocabulary of the mesh: every message that may travel, as frozen typed values.

On the wire a message is a MessagePack array: its name, then its fields in the order below. Fields are only ever
appended, so that an older reader ignores what it does not know. `docs/protocol.md` tells who says what when.
"""

from typing import Annotated, Final

from msgspec import Meta, Struct

from protocol.tensor import Tensor

PROTOCOL_VERSION: Final = 1

Count = Annotated[int, Meta(ge=0, le=2**31 - 1)]
"""A length, position or token id."""
Number = Annotated[int, Meta(ge=0)]
"""A dial, a link, a request: any unsigned 64-bit number (MessagePack has no larger ones)."""
Tokens = tuple[Count, ...]
Text = Annotated[str, Meta(max_length=4096)]
Probability = Annotated[float, Meta(ge=0.0, le=1.0)]
Penalty = Annotated[float, Meta(ge=-2.0, le=2.0)]
Bias = Annotated[float, Meta(ge=-100.0, le=100.0)]


class Message(Struct, frozen=True, array_like=True, tag=True, gc=False):
    """Base of everything that travels; `tag` puts the class name first."""


class Part(Struct, frozen=True, array_like=True, gc=False):
    """A group of fields inside a message."""


# --- the link itself -------------------------------------------------------------------------------------------


class Fingerprint(Part, frozen=True):
    """What must be equal on both sides for token ids to mean the same. Empty text: not known, not compared."""

    weights: Text = ""
    tokenizer: Text = ""
    vocabulary: Count = 0


class Window(Part, frozen=True):
    """How much the reader lets be unacknowledged: data frames and their payload bytes."""

    frames: Annotated[int, Meta(ge=1, le=2**31 - 1)] = 64
    bytes: Annotated[int, Meta(ge=1)] = 8 << 20


class Limits(Part, frozen=True):
    """What the answering side serves at most; zero is no limit of its own."""

    context: Count = 0
    requests: Count = 0
    max_ahead: Count = 0


class Hello(Message, frozen=True):
    """Unsequenced. The dialling side says it every beat until it is answered.

    `features` are what it can give; an answering side that `needs` something else refuses, with both texts.
    """

    dial: Number
    role: Text
    node_id: Text
    protocol_min: Count = PROTOCOL_VERSION
    protocol_max: Count = PROTOCOL_VERSION
    fingerprint: Fingerprint = Fingerprint()
    adapters: tuple[Text, ...] = ()
    window: Window = Window()
    features: tuple[Text, ...] = ()


class Welcome(Message, frozen=True):
    """Unsequenced. The answering side's answer to every `Hello` of the dial it is on."""

    dial: Number
    link: Number
    role: Text
    node_id: Text
    window: Window = Window()
    limits: Limits = Limits()
    method: Text = ""
    needs: tuple[Text, ...] = ()
    features: tuple[Text, ...] = ()
    fingerprint: Fingerprint = Fingerprint()


class Heartbeat(Message, frozen=True):
    """Sequenced; said when nothing else was for one beat, and every few beats in any case.

    Times are microseconds of the sender's own clock, 0 where it has none to tell: `sent` is when this was said, `echo`
    the `sent` of the last heartbeat that it heard, `held` how long ago that was.
    """

    state: Text = "ready"
    load: Count = 0
    sent: Number = 0
    echo: Number = 0
    held: Number = 0


class Refuse(Message, frozen=True):
    """A refusal with its reason. Codes `link` and `mismatch` are about the link and unsequenced."""

    code: Text
    text: Text = ""
    request: Number | None = None
    epoch: Count = 0
    field: Text = ""


class Blob(Message, frozen=True):
    """A chunk of a large constant, sent only when the peer lacks that hash."""

    hash: Text
    offset: Count
    length: Count
    data: bytes


# --- what a node counted ------------------------------------------------------------------------------------------

MOST_LABELS: Final = 512
LONGEST_LABEL: Final = 128
Label = Annotated[str, Meta(max_length=LONGEST_LABEL)]
Counts = Annotated[dict[Label, Number], Meta(max_length=MOST_LABELS)]
"""Counts by what tells them apart (a reason, a position, a peer); by nothing: one of the empty name."""
Level = Annotated[float, Meta(ge=-1e18, le=1e18)]
Levels = Annotated[dict[Label, Level], Meta(max_length=MOST_LABELS)]


class Histogram(Part, frozen=True):
    """`counts[i]` observations were above `bounds[i - 1]` and at most `bounds[i]`; the last, above all bounds."""

    bounds: Annotated[tuple[Level, ...], Meta(max_length=64)]
    counts: Annotated[tuple[Number, ...], Meta(min_length=1, max_length=65)]
    total: Annotated[float, Meta(ge=0.0, le=1e18)] = 0.0


class Facts(Part, frozen=True):
    """Numbers by name: counters only grow while a node lives, gauges say how it is now."""

    counters: Annotated[dict[Label, Counts], Meta(max_length=128)] = {}
    gauges: Annotated[dict[Label, Levels], Meta(max_length=128)] = {}
    histograms: Annotated[dict[Label, Histogram], Meta(max_length=64)] = {}


class Report(Message, frozen=True):
    """What a node counted since it began; `number` counts its reports. Newer replaces older."""

    node_id: Text
    role: Text
    number: Number
    facts: Facts = Facts()


# --- requests: the front door dials a verifier --------------------------------------------------------------------


class Sampling(Part, frozen=True):
    """How a token is drawn from the target. Temperature 0 is greedy; `top_k` 0 and `top_p` 1 filter nothing."""

    temperature: Annotated[float, Meta(ge=0.0, le=100.0)] = 0.0
    top_k: Count = 0
    top_p: Annotated[float, Meta(gt=0.0, le=1.0)] = 1.0
    min_p: Probability = 0.0
    seed: Number = 0
    repetition_penalty: Annotated[float, Meta(gt=0.0, le=100.0)] = 1.0
    presence_penalty: Penalty = 0.0
    frequency_penalty: Penalty = 0.0
    logit_bias: tuple[tuple[Count, Bias], ...] = ()
    allowed: Tokens = ()
    bad_words: tuple[Annotated[Tokens, Meta(min_length=1)], ...] = ()


class Ending(Part, frozen=True):
    """What ends a choice: `max_tokens` output tokens, an end token, a stop token, or a stop text."""

    max_tokens: Annotated[int, Meta(ge=1, le=2**31 - 1)]
    min_tokens: Count = 0
    ignore_eos: bool = False
    stop: tuple[Annotated[str, Meta(min_length=1, max_length=1024)], ...] = ()
    stop_token_ids: Tokens = ()
    include_stop: bool = False


class Grammar(Part, frozen=True):
    """What the output must be a text of. Kinds: `json_object` (no text), `json_schema`, `regex`, `lark`.

    The cap is that of a message; how long a text of each kind may be is the verifier's to say, with a refusal.
    """

    kind: Text
    text: Annotated[str, Meta(max_length=2**18)] = ""


class Submit(Message, frozen=True):
    """One prompt, to be answered by `choices` independent choices.

    `logprobs` asks for the target's log-probability of every output token and so many of the likeliest beside it,
    `prompt_logprobs` for those of the prompt's tokens from the second on (sent with the first choice). With a
    `grammar`, every output is a text of it, or a beginning of one.
    """

    request: Number
    tokens: Tokens
    ending: Ending
    sampling: Sampling = Sampling()
    choices: Annotated[int, Meta(ge=1, le=128)] = 1
    adapter: Text = ""
    priority: Annotated[int, Meta(ge=-(2**31), le=2**31 - 1)] = 0
    deadline: Annotated[float, Meta(ge=0.0, le=1e9)] | None = None
    trace: Text = ""
    logprobs: Annotated[int, Meta(ge=0, le=128)] | None = None
    prompt_logprobs: Annotated[int, Meta(ge=0, le=128)] | None = None
    grammar: Grammar | None = None


class Statistics(Part, frozen=True):
    """Counts of one choice so far. emitted = accepted + rounds, less what the end cut off.

    `history` holds all rounds in order, equal ones that follow each other in one entry: (drafted, accepted, how many).
    `lossy` is the label of an acceptance rule under which the output does not follow the target's law; else empty.
    """

    rounds: Count = 0
    drafted: Count = 0
    accepted: Count = 0
    cached_tokens: Count = 0
    history: tuple[tuple[Count, Count, Count], ...] = ()
    lossy: Text = ""


class Scored(Part, frozen=True):
    """The target's log-probability of a token, and the likeliest tokens at its position with theirs, best first.

    Both are of the raw logits, before temperature, penalties and whatever else shapes a draw.
    """

    logprob: float
    top: tuple[tuple[Count, float], ...] = ()


class Emit(Message, frozen=True):
    """Output that will not change any more; `drafted[i]` says whether token i was an accepted draft."""

    request: Number
    choice: Count
    tokens: Tokens
    text: str
    drafted: tuple[bool, ...] = ()
    logprobs: tuple[Scored, ...] = ()
    prompt_logprobs: tuple[Scored, ...] = ()


class Done(Message, frozen=True):
    """The end of a choice, exactly once: `stop`, `length`, `abort` or `error`."""

    request: Number
    choice: Count
    reason: Text
    prompt_tokens: Count
    output_tokens: Count
    statistics: Statistics = Statistics()
    detail: Text = ""


class Abort(Message, frozen=True):
    """The client is gone or changed its mind. Idempotent."""

    request: Number
    reason: Text = ""


# --- speculation: a verifier dials a drafter ------------------------------------------------------------------------


class DraftSync(Message, frozen=True):
    """Opens a mirror at `epoch`: the prompt, and the output committed so far.

    A drafter that samples sends with each guess the tokens that it was drawn from, at most `slice` of them; 0: guesses
    must be functions of text and seed. `fresh`: its noise carries the committed length too (rule `block`).
    """

    request: Number
    epoch: Count
    prompt: Tokens
    output: Tokens
    max_ahead: Count
    sampling: Sampling = Sampling()
    adapter: Text = ""
    choice: Count = 0
    confidences: bool = True
    slice: Count = 0
    trace: Text = ""
    hidden_from: Count = 0
    hidden: Tensor | None = None
    fresh: bool = False


class DraftContext(Message, frozen=True):
    """Hidden rows of positions from `hidden_from` on, as prefill computes them or as the drafter lacks them."""

    request: Number
    epoch: Count
    hidden_from: Count
    hidden: Tensor


class VerifyCommit(Message, frozen=True):
    """Output tokens `start`... are final now. Never empty, always contiguous."""

    request: Number
    epoch: Count
    start: Count
    tokens: Annotated[Tokens, Meta(min_length=1)]
    max_ahead: Count
    hidden_from: Count = 0
    hidden: Tensor | None = None


class DraftTailStream(Message, frozen=True):
    """From output position `start` on, the drafter's line is now `tokens`, drafted when `base` tokens were committed.

    A row without tokens says that the line ends at `start`: there is nothing to guess.
    """

    request: Number
    epoch: Count
    base: Count
    start: Count
    tokens: Tokens
    confidences: tuple[Probability, ...] = ()
    slice_ids: Tensor | None = None
    slice_probs: Tensor | None = None
    parents: tuple[int, ...] | None = None


class DraftClose(Message, frozen=True):
    """The mirror of `request` at `epoch` is not needed any more."""

    request: Number
    epoch: Count
    reason: Text = ""


# --- hand-over of computed prompts: a verifier dials a prefill node ----------------------------------------------


class Piece(Part, frozen=True):
    """Layers [first, end) of positions [start, stop): what one chunk holds."""

    first: Count
    end: Count
    start: Count
    stop: Count


class Parcel(Part, frozen=True):
    """A chunk on its way. `data` is the chunk itself, where the channel does not keep it elsewhere.

    `checksum` is XXH3 of 64 bits, where the channel has one.
    """

    place: Count
    size: Annotated[int, Meta(ge=1, le=1 << 30)]
    checksum: Number | None = None
    data: Tensor | None = None


class KvOffer(Message, frozen=True):
    """Pages for positions [start, end) of `tokens` are at hand, and stay so until `KvTaken` or `KvAbort`.

    `layout` is the verifier's (`kvtransfer/layout.py`); the channels are those it can read, best first. `trace` is that
    of `Submit`.
    """

    request: Number
    epoch: Count
    tokens: Tokens
    start: Count
    end: Count
    layout: bytes
    channels: tuple[Text, ...]
    adapter: Text = ""
    trace: Text = ""


class KvAccept(Message, frozen=True):
    """It will be computed, and comes over this channel; `hint` tells how to find it. `layout` is the sender's."""

    request: Number
    epoch: Count
    channel: Text
    hint: bytes
    layout: bytes


class KvChunk(Message, frozen=True):
    """Bytes of a piece. Each layer's positions come in order and without gaps; the last ones of all are the end."""

    request: Number
    epoch: Count
    piece: Piece
    parcel: Parcel


class KvCredit(Message, frozen=True):
    """These places may be filled again, whatever became of what was in them."""

    places: tuple[Count, ...]


class KvTaken(Message, frozen=True):
    """All of it arrived: the prefill node may forget it."""

    request: Number
    epoch: Count


class KvAbort(Message, frozen=True):
    """From either side, at any point; the other side forgets the hand-over and does not answer."""

    request: Number
    epoch: Count
    reason: Text = ""


# --- documents for drafters that match text: an operator's tool dials a drafter ----------------------------------


class CorpusAdd(Message, frozen=True):
    """Adds (or, with `append`, extends) the named corpus; each document stands alone."""

    name: Annotated[str, Meta(min_length=1, max_length=128)]
    documents: tuple[Tokens, ...]
    append: bool = False


class CorpusRemove(Message, frozen=True):
    """Forgets the named corpus."""

    name: Text


class CorpusList(Message, frozen=True):
    """Asks for a `CorpusReport`."""


class CorpusEntry(Part, frozen=True):
    name: Text
    documents: Count
    tokens: Count
    ready: bool


class CorpusReport(Message, frozen=True):
    """The corpora that a drafter holds; `error` says why the last command was not obeyed."""

    entries: tuple[CorpusEntry, ...]
    error: Text = ""


class Reset(Message, frozen=True):
    """Forget everything learned: prefix cache, store of past outputs. For measurements; live requests go on."""


AnyMessage = (
    Hello
    | Welcome
    | Heartbeat
    | Refuse
    | Report
    | Blob
    | Submit
    | Emit
    | Done
    | Abort
    | DraftSync
    | DraftContext
    | VerifyCommit
    | DraftTailStream
    | DraftClose
    | KvOffer
    | KvAccept
    | KvChunk
    | KvCredit
    | KvTaken
    | KvAbort
    | CorpusAdd
    | CorpusRemove
    | CorpusList
    | CorpusReport
    | Reset
)
"""The closed union: what is not in it cannot be read."""
