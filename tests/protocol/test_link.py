"""Stories of one link, told on both of its sides."""

from collections.abc import Callable

import pytest

from protocol.codec import Kind
from protocol.config import LinkConfig
from protocol.link import Channel, Identity, LinkDown, LinkUp, Outgoing, Received, Rejected
from protocol.messages import (
    AnyMessage,
    Fingerprint,
    Heartbeat,
    Hello,
    Limits,
    Refuse,
    Welcome,
    Window,
)
from tests.protocol.pair import CONFIG, DRAFTER, VERIFIER, Events, Pair, data, down, word

Carry = Callable[[Pair, Outgoing], Events]
BOTH_WAYS = pytest.mark.parametrize("towards", ["answerer", "dialler"])


def ends(pair: Pair, towards: str) -> tuple[Channel, Carry, int]:
    """The side that speaks, how its frames travel, and whose events of a pair are the listener's."""
    if towards == "answerer":
        return pair.ours, Pair.to_answerer, 1
    return pair.theirs, Pair.to_dialler, 0


def answer(pair: Pair, towards: str) -> None:
    """The listener says something, and so acknowledges what it read."""
    speaker, carry, _ = ends(pair, "dialler" if towards == "answerer" else "answerer")
    carry(pair, data(speaker, "I heard"))


# --- how a link begins -------------------------------------------------------------------------------------------


def test_a_hello_is_answered_and_each_side_learns_who_the_other_is() -> None:
    assert Pair().tick() == (
        [LinkUp(500, "drafter", "drafter-0", Limits(64, 8, 16), "ngram")],
        [LinkUp(500, "verifier", "verifier-0", fingerprint=Fingerprint("w", "t", 100))],
    )


def test_each_side_learns_the_window_of_the_other() -> None:
    pair = Pair.linked()
    assert (pair.ours.window, pair.theirs.window) == (Window(8, 1 << 16), Window(8, 1 << 16))


def test_a_hello_is_said_every_beat_until_it_is_answered() -> None:
    dialler = Pair().dialler
    said = [len(dialler.tick(now, Heartbeat())[1]) for now in (0.0, 0.4, 0.5, 0.9, 1.0)]
    assert said == [1, 0, 1, 0, 1]


def test_the_same_dial_is_said_until_it_is_answered() -> None:
    dialler = Pair().dialler
    hellos = [dialler.tick(now, Heartbeat())[1][0].messages[0] for now in (0.0, 0.5, 1.0)]
    assert [hello.dial for hello in hellos if isinstance(hello, Hello)] == [100, 100, 100]


def test_a_welcome_is_repeated_for_the_same_dial_without_a_new_link() -> None:
    pair = Pair()
    _, [hello] = pair.dialler.tick(0.0, Heartbeat())
    first = pair.answerer.receive(pair.frame(hello), 0.0)  # this welcome is lost
    again = pair.answerer.receive(pair.frame(hello), 0.5)
    assert (len(first[0]), again[0], again[1]) == (1, [], first[1])
    assert pair.to_dialler(again[1][0])[0] == [
        LinkUp(500, "drafter", "drafter-0", Limits(64, 8, 16), "ngram")
    ]


def test_a_repeated_hello_does_not_disturb_the_link_in_use() -> None:
    pair = Pair()
    _, [hello] = pair.dialler.tick(0.0, Heartbeat())
    pair.to_answerer(hello)
    pair.to_answerer(data(pair.ours, "one"))
    assert pair.to_answerer(hello) == ([], [])
    assert pair.to_answerer(data(pair.ours, "two")) == ([], [Received(500, (word("two"),))])


def test_a_second_welcome_does_not_open_the_link_again() -> None:
    pair = Pair()
    _, [hello] = pair.dialler.tick(0.0, Heartbeat())
    _, [welcome] = pair.answerer.receive(pair.frame(hello), 0.0)
    pair.to_dialler(welcome)
    pair.to_dialler(data(pair.theirs, "one"))
    assert pair.to_dialler(welcome) == ([], [])
    assert pair.to_dialler(data(pair.theirs, "two")) == ([Received(500, (word("two"),))], [])


def test_a_welcome_for_an_earlier_dial_is_no_answer() -> None:
    pair = Pair()
    _, [hello] = pair.dialler.tick(0.0, Heartbeat())
    _, [late] = pair.answerer.receive(pair.frame(hello), 0.0)
    pair.to_dialler(late)
    pair.dialler.receive(pair.frame(Outgoing(Kind.REFUSE, 500, 0, 0, (Refuse("link"),))), 0.0)
    assert (pair.dialler.dial, pair.to_dialler(late), pair.links[0]) == (101, ([], []), None)


def test_a_late_hello_of_an_old_dial_costs_one_link_and_heals() -> None:
    pair = Pair()
    _, [late] = pair.dialler.tick(0.0, Heartbeat())
    pair.to_answerer(late)
    pair.to_dialler(Outgoing(Kind.REFUSE, 500, 0, 0, (Refuse("link"),)))
    pair.tick()
    assert pair.links == (501, 501)
    ours, theirs = pair.to_answerer(late)  # a copy that was on its way for very long
    assert (ours, down(theirs), pair.links) == ([], [(501, "redialled")], (501, 502))
    ours, theirs = pair.to_answerer(data(pair.ours, "lost"))
    assert (ours, theirs) == ([LinkDown(501, "refused")], [])
    pair.tick()
    assert pair.links == (503, 503)


@pytest.mark.parametrize(
    "frame",
    [
        Outgoing(Kind.HELLO, 0, 0, 0, (Heartbeat(),)),
        Outgoing(Kind.HELLO, 0, 0, 0, ()),
        Outgoing(Kind.HELLO, 0, 0, 0, (Hello(1, "v", "v"), Hello(2, "v", "v"))),
        Outgoing(Kind.WELCOME, 9, 0, 0, (Welcome(100, 9, "d", "d"),)),
        Outgoing(Kind.REFUSE, 499, 0, 0, (Refuse("link"),)),
        Outgoing(Kind.REFUSE, 500, 0, 0, (Refuse("mismatch"),)),
    ],
)
def test_an_answerer_ignores_what_means_nothing_to_it(frame: Outgoing) -> None:
    pair = Pair.linked()
    assert pair.answerer.receive(pair.frame(frame), 0.0) == ([], [])
    assert pair.links == (500, 500)


@pytest.mark.parametrize(
    "frame",
    [
        Outgoing(Kind.WELCOME, 9, 0, 0, (Welcome(99, 9, "d", "d"),)),
        Outgoing(Kind.WELCOME, 9, 0, 0, (Heartbeat(),)),
        Outgoing(Kind.WELCOME, 9, 0, 0, (Welcome(100, 9, "d", "d"), Heartbeat())),
        Outgoing(Kind.HELLO, 0, 0, 0, (Hello(1, "v", "v"),)),
        Outgoing(Kind.REFUSE, 9, 0, 0, (Refuse("link"),)),
        Outgoing(Kind.REFUSE, 9, 0, 0, (Refuse("full"),)),
    ],
)
def test_a_dialler_without_a_link_ignores_what_is_no_answer(frame: Outgoing) -> None:
    pair = Pair()
    assert pair.dialler.receive(pair.frame(frame), 0.0) == ([], [])
    assert (pair.links, pair.dialler.dial) == ((None, None), 100)


# --- who may not speak -------------------------------------------------------------------------------------------


def hello_with(**fields: object) -> Outgoing:
    hello = Hello(**{"dial": 1, "role": "verifier", "node_id": "v", **fields})  # type: ignore[arg-type]
    return Outgoing(Kind.HELLO, 0, 0, 0, (hello,))


def refusal(pair: Pair, hello: Outgoing) -> tuple[AnyMessage, ...]:
    _, [answer] = pair.answerer.receive(pair.frame(hello), 0.0)
    return answer.messages


@pytest.mark.parametrize(("least", "most"), [(2, 3), (0, 0)])
def test_a_protocol_that_this_side_does_not_speak_is_refused_with_both_values(
    least: int, most: int
) -> None:
    text = f"protocol {least} to {most} dialled, this side speaks 1"
    hello = hello_with(protocol_min=least, protocol_max=most)
    assert refusal(Pair(), hello) == (Refuse("mismatch", text),)


def test_a_newer_peer_that_still_speaks_this_protocol_is_welcome() -> None:
    assert isinstance(refusal(Pair(), hello_with(protocol_min=1, protocol_max=9))[0], Welcome)


def test_another_tokenizer_is_refused_with_both_values_and_the_dialler_keeps_asking() -> None:
    pair = Pair(theirs=Identity("drafter", "d", Fingerprint("w", "other", 100)))
    refused = Rejected("tokenizer t dialled, this side has other")
    assert [pair.tick(), pair.tick(0.4), pair.tick(0.1)] == [
        ([refused], []),
        ([], []),
        ([refused], []),
    ]


@pytest.mark.parametrize(
    "theirs",
    [Fingerprint("", "", 0), Fingerprint("other weights", "t", 164)],
    ids=["nothing known", "padded vocabulary"],
)
def test_only_a_known_tokenizer_is_compared(theirs: Fingerprint) -> None:
    pair = Pair(theirs=Identity("drafter", "d", theirs))
    pair.tick()
    assert pair.links == (500, 500)


NEEDS = Identity("drafter", "d", needs=("states 1", "weights w"))


def giving(*features: str, role: str = "verifier") -> Identity:
    return Identity(role, "v", features=features)


@pytest.mark.parametrize(
    ("ours", "given"),
    [(giving("weights w"), "weights w"), (giving(), "no features")],
    ids=["something else", "nothing"],
)
def test_what_a_drafter_needs_and_a_verifier_does_not_give_is_refused_with_both_texts(
    ours: Identity, given: str
) -> None:
    pair = Pair(ours=ours, theirs=NEEDS)
    assert pair.tick() == ([Rejected(f"d needs states 1; v gives {given}")], [])


def test_needs_that_are_met_are_told_to_the_dialler() -> None:
    (up,), _ = Pair(ours=giving("weights w", "states 1", "more"), theirs=NEEDS).tick()
    assert isinstance(up, LinkUp)
    assert up.needs == ("states 1", "weights w")


def test_a_tool_gives_nothing_and_is_not_refused_for_it() -> None:
    pair = Pair(ours=giving(role="tool"), theirs=NEEDS)
    pair.tick()
    assert pair.links == (500, 500)


def test_a_peer_that_comes_back_with_another_tokenizer_loses_its_link() -> None:
    pair = Pair(theirs=Identity("drafter", "d", Fingerprint("w", "t", 100)))
    pair.tick()
    hello = hello_with(fingerprint=Fingerprint("w", "new", 100))
    events, _ = pair.answerer.receive(pair.frame(hello), 0.0)
    assert (events, pair.links) == ([LinkDown(500, "mismatch")], (500, None))


def test_a_late_refusal_does_not_reject_a_dialler_that_has_a_link() -> None:
    pair = Pair.linked()
    late = Outgoing(Kind.REFUSE, 0, 0, 0, (Refuse("mismatch", "old news"),))
    assert (pair.to_dialler(late), pair.links) == (([], []), (500, 500))


# --- sequence: loss, duplication, age ---------------------------------------------------------------------------


@BOTH_WAYS
def test_frames_are_read_in_the_order_in_which_they_were_said(towards: str) -> None:
    pair = Pair.linked()
    speaker, carry, listener = ends(pair, towards)
    frames = [data(speaker, text) for text in ("one", "two", "three")]
    heard = [event for frame in frames for event in carry(pair, frame)[listener]]
    assert heard == [Received(500, (word(text),)) for text in ("one", "two", "three")]


@BOTH_WAYS
def test_a_hole_ends_the_link_on_both_sides_and_nothing_after_it_is_read(towards: str) -> None:
    pair = Pair.linked()
    speaker, carry, listener = ends(pair, towards)
    _lost, second, third = (data(speaker, text) for text in ("one", "two", "three"))
    assert down(carry(pair, second)[listener]) == [(500, "gap")]
    assert not [event for event in carry(pair, third)[listener] if isinstance(event, Received)]
    pair.tick()
    assert pair.links == (501, 501)


def test_a_hole_towards_the_answerer_is_refused_and_the_dialler_hears_of_it_at_once() -> None:
    pair = Pair.linked()
    data(pair.ours, "lost")
    assert pair.to_answerer(data(pair.ours, "two")) == (
        [LinkDown(500, "refused")],
        [LinkDown(500, "gap")],
    )


def test_a_hole_towards_the_dialler_makes_it_dial_anew_and_the_answerer_drops_the_old_link() -> (
    None
):
    pair = Pair.linked()
    data(pair.theirs, "lost")
    assert pair.to_dialler(data(pair.theirs, "two")) == ([LinkDown(500, "gap")], [])
    _, theirs = pair.tick()
    assert (down(theirs), pair.dialler.dial, pair.links) == ([(500, "redialled")], 101, (501, 501))


def test_a_new_link_starts_clean() -> None:
    pair = Pair.linked()
    data(pair.theirs, "lost")
    pair.to_dialler(data(pair.theirs, "two"))
    pair.tick()
    fresh = (0, 0, 0, 0)
    for channel in (pair.ours, pair.theirs):
        assert (channel.sent, channel.read, channel.acked, channel.unacked_bytes) == fresh
    assert pair.to_answerer(data(pair.ours, "new")) == ([], [Received(501, (word("new"),))])


@BOTH_WAYS
def test_a_duplicate_is_dropped_and_changes_nothing(towards: str) -> None:
    pair = Pair.linked()
    speaker, carry, listener = ends(pair, towards)
    one, two = data(speaker, "one"), data(speaker, "two")
    assert [carry(pair, frame)[listener] for frame in (one, one, two, one, two)] == [
        [Received(500, (word("one"),))],
        [],
        [Received(500, (word("two"),))],
        [],
        [],
    ]
    assert pair.links == (500, 500)


@BOTH_WAYS
def test_an_old_frame_is_no_sign_of_life(towards: str) -> None:
    pair = Pair.linked()
    speaker, carry, listener = ends(pair, towards)
    old = data(speaker, "one")
    carry(pair, old)
    for pair.now in (1.0, 2.0, 3.0):
        carry(pair, old)
    half = (pair.dialler, pair.answerer)[listener]
    assert down(half.tick(3.01, Heartbeat())[0]) == [(500, "silence")]


@BOTH_WAYS
def test_an_acknowledgement_of_what_was_never_said_ends_the_link(towards: str) -> None:
    pair = Pair.linked()
    speaker, carry, listener = ends(pair, towards)
    lie = Outgoing(Kind.BEAT, 500, speaker.sent + 1, 1, (Heartbeat(),))
    assert down(carry(pair, lie)[listener]) == [(500, "gap")]


def test_a_frame_of_another_link_is_refused_with_that_link_and_the_own_one_lives() -> None:
    pair = Pair.linked()
    stray = Outgoing(Kind.DATA, 499, 1, 0, (word("stray"),))
    events, answers = pair.answerer.receive(pair.frame(stray), 0.0)
    assert (events, answers) == ([], [Outgoing(Kind.REFUSE, 499, 0, 0, (Refuse("link"),))])
    assert (pair.to_dialler(answers[0]), pair.links) == (([], []), (500, 500))


def test_a_frame_of_another_link_is_no_sign_of_life() -> None:
    pair = Pair.linked()
    stray = Outgoing(Kind.BEAT, 499, 1, 0, (Heartbeat(),))
    pair.answerer.receive(pair.frame(stray), 2.0)
    pair.dialler.receive(pair.frame(stray), 2.0)
    assert (pair.theirs.heard_at, pair.ours.heard_at) == (0.0, 0.0)


def test_a_dialler_drops_a_frame_of_another_link_without_a_word() -> None:
    pair = Pair.linked()
    stray = Outgoing(Kind.DATA, 499, 1, 0, (word("stray"),))
    assert pair.dialler.receive(pair.frame(stray), 0.0) == ([], [])


def test_an_answerer_without_a_link_refuses_every_frame_with_the_link_that_it_bears() -> None:
    pair = Pair()
    beat = Outgoing(Kind.BEAT, 7, 3, 2, (Heartbeat(),))
    assert pair.answerer.receive(pair.frame(beat), 0.0) == (
        [],
        [Outgoing(Kind.REFUSE, 7, 0, 0, (Refuse("link"),))],
    )


def test_a_refusal_of_a_request_on_the_unsequenced_path_is_not_believed() -> None:
    pair = Pair.linked()
    loose = Outgoing(Kind.REFUSE, 500, 0, 0, (Refuse("full", request=1, epoch=1),))
    assert (pair.to_dialler(loose), pair.links) == (([], []), (500, 500))


# --- time -----------------------------------------------------------------------------------------------------------


def test_beats_keep_a_quiet_link_alive_on_both_sides() -> None:
    pair = Pair.linked()
    events = [pair.tick(0.5) for _ in range(100)]
    assert not [event for ours, theirs in events for event in down(ours + theirs)]
    assert (pair.links, pair.ours.sent, pair.theirs.sent) == ((500, 500), 100, 100)


@BOTH_WAYS
def test_a_beat_is_said_one_beat_after_the_last_word(towards: str) -> None:
    pair = Pair.linked()
    speaker, _, listener = ends(pair, towards)
    half = (pair.answerer, pair.dialler)[listener]
    data(speaker, "one", now=0.3)
    said = {now: half.tick(now, Heartbeat("ready", 2))[1] for now in (0.5, 0.79, 0.8, 0.9)}
    beat = Outgoing(Kind.BEAT, 500, 2, 0, (Heartbeat("ready", 2, sent=800_000),))
    assert said == {0.5: [], 0.79: [], 0.8: [beat], 0.9: []}


@BOTH_WAYS
def test_a_link_that_is_never_quiet_says_a_beat_once_in_four(towards: str) -> None:
    pair = Pair.linked()
    speaker, carry, listener = ends(pair, towards)
    half = (pair.answerer, pair.dialler)[listener]
    beats = []
    for tenth in range(1, 41):
        pair.now = tenth / 10
        answer(pair, towards)
        carry(pair, data(speaker, "word", pair.now))
        for beat in half.tick(pair.now, Heartbeat())[1]:
            carry(pair, beat)
            beats.append(pair.now)
    assert beats == [2.0, 4.0]


@BOTH_WAYS
def test_silence_past_the_deadline_ends_the_link(towards: str) -> None:
    pair = Pair.linked()
    half = pair.answerer if towards == "answerer" else pair.dialler
    assert down(half.tick(3.0, Heartbeat())[0]) == []
    assert down(half.tick(3.001, Heartbeat())[0]) == [(500, "silence")]


def test_a_dialler_says_hello_with_a_new_dial_in_the_moment_of_silence() -> None:
    pair = Pair.linked()
    _, [hello] = pair.dialler.tick(3.001, Heartbeat())
    [said] = hello.messages
    assert isinstance(said, Hello)
    assert (hello.kind, said.dial) == (Kind.HELLO, 101)


def test_an_answerer_says_nothing_more_after_silence() -> None:
    pair = Pair.linked()
    pair.answerer.tick(3.001, Heartbeat())
    assert pair.answerer.tick(9.0, Heartbeat()) == ([], [])
    assert pair.answerer.deadline() == float("inf")


def test_a_cut_in_one_direction_ends_the_link_on_both_sides() -> None:
    pair = Pair.linked()
    reasons: list[tuple[int, str]] = []
    for step in range(1, 15):  # the answerer hears nothing of the dialler any more
        now = step * 0.5
        pair.dialler.tick(now, Heartbeat())
        events, beats = pair.answerer.tick(now, Heartbeat())
        reasons += down(events)
        for beat in beats:
            pair.dialler.receive(pair.frame(beat), now)
    assert reasons == [(500, "silence")]
    assert (pair.links[1], pair.dialler.dial) == (None, 101)


def test_the_deadline_is_the_next_beat_or_the_end_of_silence_whichever_is_first() -> None:
    pair = Pair.linked()
    assert (pair.dialler.deadline(), pair.answerer.deadline()) == (0.5, 0.5)
    pair.ours.said_at = 2.8
    assert pair.dialler.deadline() == 3.0


def test_the_deadline_of_a_dialler_without_a_link_is_its_next_hello() -> None:
    pair = Pair()
    before = pair.dialler.deadline()
    pair.dialler.tick(0.0, Heartbeat())
    assert (before, pair.dialler.deadline()) == (0.0, 0.5)


# --- acknowledgements and the window -----------------------------------------------------------------------------


@BOTH_WAYS
def test_the_window_closes_by_frames_and_opens_with_the_acknowledgement(towards: str) -> None:
    pair = Pair.linked()
    speaker, carry, _ = ends(pair, towards)
    frames = []
    while speaker.writable:
        frames.append(data(speaker, "x"))
    assert len(frames) == 8
    for frame in frames:
        carry(pair, frame)
    assert not speaker.writable
    pair.tick()
    assert (speaker.writable, len(speaker.sizes), speaker.unacked_bytes) == (True, 0, 0)


@BOTH_WAYS
def test_the_window_closes_by_bytes(towards: str) -> None:
    pair = Pair.linked()
    speaker, carry, _ = ends(pair, towards)
    first, second = data(speaker, "x" * 65_535), data(speaker, "y")
    assert (speaker.writable, speaker.unacked_bytes) == (False, 1 << 16)
    carry(pair, first)
    answer(pair, towards)
    assert (speaker.writable, speaker.unacked_bytes) == (True, 1)
    carry(pair, second)
    answer(pair, towards)
    assert (speaker.writable, speaker.unacked_bytes) == (True, 0)


def test_one_frame_larger_than_the_window_passes_alone() -> None:
    pair = Pair.linked()
    data(pair.ours, "x" * 100_000)
    assert not pair.ours.writable


def test_beats_pass_while_the_window_is_closed() -> None:
    pair = Pair.linked()
    frames = [data(pair.ours, "x") for _ in range(8)]
    beats = [pair.dialler.tick(now, Heartbeat())[1] for now in (0.5, 1.0, 1.5)]
    assert [len(each) for each in beats] == [1, 1, 1]
    for frame in [*frames, *(beat for each in beats for beat in each)]:
        pair.to_answerer(frame)
    assert (pair.links, pair.theirs.read) == ((500, 500), 11)


@BOTH_WAYS
def test_a_reader_acknowledges_at_once_when_half_of_its_window_is_unacknowledged(
    towards: str,
) -> None:
    pair = Pair.linked()
    speaker, carry, listener = ends(pair, towards)
    half = (pair.dialler, pair.answerer)[listener]
    for _ in range(3):
        carry(pair, data(speaker, "x"))
    before = half.tick(0.1, Heartbeat())[1]
    carry(pair, data(speaker, "x"))
    assert (before, half.tick(0.1, Heartbeat())[1]) == (
        [],
        [Outgoing(Kind.BEAT, 500, 1, 4, (Heartbeat(sent=100_000),))],
    )


def test_beats_are_not_answered_with_beats() -> None:
    pair = Pair.linked(LinkConfig(window_frames=2))
    pair.tick(0.5)
    for _ in range(10):
        pair.tick()
    assert (pair.ours.sent, pair.theirs.sent) == (1, 1)


@BOTH_WAYS
def test_a_reader_acknowledges_at_once_when_half_of_its_bytes_are_unacknowledged(
    towards: str,
) -> None:
    pair = Pair.linked()
    speaker, carry, listener = ends(pair, towards)
    half = (pair.dialler, pair.answerer)[listener]
    carry(pair, data(speaker, "x" * 30_000))
    before = half.tick(0.1, Heartbeat())[1]
    carry(pair, data(speaker, "x" * 3_000))
    assert (before, half.tick(0.1, Heartbeat())[1]) == (
        [],
        [Outgoing(Kind.BEAT, 500, 1, 2, (Heartbeat(sent=100_000),))],
    )
    assert half.tick(0.2, Heartbeat())[1] == []


def test_an_old_acknowledgement_does_not_take_a_newer_one_back() -> None:
    pair = Pair.linked()
    for text in ("one", "two"):
        pair.to_answerer(data(pair.ours, text))
    pair.to_dialler(data(pair.theirs, "newer"))
    pair.to_dialler(Outgoing(Kind.BEAT, 500, 2, 1, (Heartbeat(),)))
    assert (pair.ours.acked, pair.ours.unacked_bytes, pair.links) == (2, 0, (500, 500))


def test_the_window_that_counts_is_the_reader_s_own() -> None:
    narrow = LinkConfig(window_frames=2, window_bytes=1 << 16)
    pair = Pair(CONFIG, VERIFIER, DRAFTER)
    pair.answerer = Pair(narrow).answerer
    pair.tick()
    assert (pair.ours.window.frames, pair.theirs.window.frames) == (2, 8)
