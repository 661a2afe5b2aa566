"""Stories of whole nodes: endpoints over an in-process mesh with a clock that the test moves."""

from collections.abc import Sequence
from itertools import count

from protocol.codec import Codec, Kind
from protocol.config import LinkConfig
from protocol.endpoint import Endpoint
from protocol.link import Event, Identity, LinkDown, LinkUp, Received, Rejected
from protocol.local_mesh import LocalMesh, LocalNetwork
from protocol.mesh import Frames, Peer
from protocol.messages import AnyMessage, Facts, Fingerprint, Heartbeat, Limits
from tests.protocol.pair import CONFIG, DRAFTER, VERIFIER, down, word


class Reluctant(LocalMesh):
    """A mesh that takes nothing while it is not willing, and not the next few messages that it is to refuse."""

    willing = True
    refusals = 0

    def send(self, peer: Peer, frames: Frames) -> bool:
        if self.refusals:
            self.refusals -= 1
            return False
        return self.willing and super().send(peer, frames)


class World:
    """A clock, a network, and nodes on it; `lost` and `doubled` say what becomes of the next messages."""

    def __init__(self) -> None:
        self.now = 0.0
        self.lost = 0
        self.doubled = 0
        self.network = LocalNetwork(lambda: self.now, self._fate)
        self.nodes: dict[str, Endpoint] = {}

    def _fate(self, _source: str, _target: str) -> Sequence[float]:
        if self.lost:
            self.lost -= 1
            return ()
        if self.doubled:
            self.doubled -= 1
            return (0.0, 0.0)
        return (0.0,)

    def node(
        self, name: str, identity: Identity = DRAFTER, config: LinkConfig = CONFIG
    ) -> Endpoint:
        mesh = Reluctant(self.network, name)
        self.network._nodes[name] = mesh
        numbers = count(1000 * (1 + len(self.nodes)))
        self.nodes[name] = Endpoint(mesh, config, identity, numbers.__next__)
        return self.nodes[name]

    def turn(self, seconds: float = 0.0) -> dict[str, list[Event]]:
        """Let time pass, then drain every node until all are quiet."""
        self.now += seconds
        events: dict[str, list[Event]] = {name: [] for name in self.nodes}
        for _ in range(4):
            for name, node in self.nodes.items():
                events[name] += node.drain(self.now)
        return events


def mesh(endpoint: Endpoint) -> Reluctant:
    assert isinstance(endpoint.mesh, Reluctant)
    return endpoint.mesh


def linked() -> tuple[World, Endpoint, Endpoint, int]:
    """A verifier that dialled a drafter: world, verifier, drafter, link."""
    world = World()
    verifier, drafter = world.node("verifier", VERIFIER), world.node("drafter")
    verifier.dial("drafter", 0.0)
    world.turn()
    [link] = verifier.links
    return world, verifier, drafter, link


def words(events: Sequence[Event]) -> list[str]:
    """The texts that were received."""
    received = [each for each in events if isinstance(each, Received)]
    messages: list[AnyMessage] = [message for each in received for message in each.messages]
    return [message.text for message in messages if hasattr(message, "text")]


def say(world: World, node: Endpoint, link: int, *texts: str) -> bool:
    return node.send(link, [word(text) for text in texts], world.now)


# --- links -------------------------------------------------------------------------------------------------------


def test_dialling_gives_both_nodes_the_same_link() -> None:
    world = World()
    verifier, _ = world.node("verifier", VERIFIER), world.node("drafter")
    verifier.dial("drafter", 0.0)
    assert world.turn() == {
        "verifier": [LinkUp(2000, "drafter", "drafter-0", Limits(64, 8, 16), "ngram")],
        "drafter": [LinkUp(2000, "verifier", "verifier-0", fingerprint=Fingerprint("w", "t", 100))],
    }


def test_a_batch_arrives_as_one_event_in_its_order() -> None:
    world, verifier, _, link = linked()
    assert say(world, verifier, link, "one", "two", "three")
    assert world.turn()["drafter"] == [Received(link, (word("one"), word("two"), word("three")))]


def test_frames_of_both_directions_keep_their_order() -> None:
    world, verifier, drafter, link = linked()
    for text in ("one", "two", "three"):
        say(world, verifier, link, text)
        say(world, drafter, link, text.upper())
    events = world.turn()
    assert words(events["drafter"]) == ["one", "two", "three"]
    assert words(events["verifier"]) == ["ONE", "TWO", "THREE"]


def test_every_dialler_has_a_link_of_its_own() -> None:
    world, first, drafter, link = linked()
    second = world.node("second", VERIFIER)
    second.dial("drafter", world.now)
    world.turn()
    [other] = second.links
    say(world, drafter, link, "to the first")
    say(world, drafter, other, "to the second")
    events = world.turn()
    assert (words(events["verifier"]), words(events["second"])) == (
        ["to the first"],
        ["to the second"],
    )
    assert first.links == (link,)


def test_dialling_an_address_twice_is_one_link() -> None:
    world, verifier, drafter, link = linked()
    verifier.dial("drafter", world.now)
    world.turn(0.5)
    assert (verifier.links, drafter.links) == ((link,), (link,))


def test_nothing_is_sent_over_a_link_that_is_not_there() -> None:
    world, verifier, _, link = linked()
    assert not verifier.writable(link + 1)
    assert not say(world, verifier, link + 1, "hello")


def test_an_empty_batch_is_not_said() -> None:
    world, verifier, _, link = linked()
    assert not verifier.send(link, [], world.now)


def test_hanging_up_ends_the_link_here_and_there() -> None:
    world, verifier, drafter, link = linked()
    assert verifier.hang_up("drafter") == [LinkDown(link, "hung up")]
    assert world.turn(0.1)["drafter"] == [LinkDown(link, "refused")]
    assert (verifier.links, drafter.links, verifier.deadline()) == ((), (), float("inf"))


def test_a_node_that_leaves_in_order_says_so_to_both_kinds_of_peers() -> None:
    world, verifier, drafter, link = linked()
    drafter.close()
    assert world.turn(0.1)["verifier"] == [LinkDown(link, "refused")]
    world, verifier, drafter, link = linked()
    verifier.close()
    assert world.turn(0.1)["drafter"] == [LinkDown(link, "refused")]


def test_hanging_up_on_nobody_is_nothing() -> None:
    world, verifier, _, link = linked()
    assert (verifier.hang_up("nobody"), verifier.links) == ([], (link,))
    world.turn()


def test_hanging_up_before_the_answer_ends_the_dialling() -> None:
    world = World()
    verifier = world.node("verifier", VERIFIER)
    verifier.dial("drafter", 0.0)
    assert verifier.hang_up("drafter") == []
    drafter = world.node("drafter")
    assert world.turn(1.0) == {"verifier": [], "drafter": []}
    assert drafter.links == ()


def test_a_mismatch_is_reported_and_leaves_no_lane_behind() -> None:
    world = World()
    verifier = world.node("verifier", VERIFIER)
    drafter = world.node("drafter", Identity("drafter", "d", Fingerprint("w", "other", 100)))
    verifier.dial("drafter", 0.0)
    events = world.turn()
    assert events["verifier"] == [Rejected("tokenizer t dialled, this side has other")]
    assert (drafter._lanes, drafter.links) == ({}, ())


# --- what may go wrong on the way ---------------------------------------------------------------------------------


def test_a_lost_frame_ends_the_link_and_the_next_one_works() -> None:
    world, verifier, drafter, link = linked()
    world.lost = 1
    say(world, verifier, link, "lost")
    say(world, verifier, link, "unread")
    events = world.turn()
    [fresh] = verifier.links
    assert (down(events["drafter"]), down(events["verifier"])) == (
        [(link, "gap")],
        [(link, "refused")],
    )
    assert (words(events["drafter"]), fresh != link, drafter.links) == ([], True, (fresh,))
    say(world, verifier, fresh, "again")
    assert words(world.turn()["drafter"]) == ["again"]
    assert (drafter.counters["links_down_gap"], verifier.counters["links_down_refused"]) == (1, 1)


def test_a_doubled_frame_is_read_once_and_counted() -> None:
    world, verifier, drafter, link = linked()
    world.doubled = 1
    say(world, verifier, link, "once")
    assert words(world.turn()["drafter"]) == ["once"]
    assert (drafter.counters["frames_dropped"], verifier.links) == (1, (link,))


def test_a_doubled_hello_makes_one_link() -> None:
    world = World()
    verifier, drafter = world.node("verifier", VERIFIER), world.node("drafter")
    world.doubled = 2
    verifier.dial("drafter", 0.0)
    world.turn()
    assert (len(verifier.links), drafter.links) == (1, verifier.links)
    assert drafter.counters["links_up"] == 1


def test_bytes_that_are_not_ours_are_counted_and_harm_no_link() -> None:
    world, verifier, drafter, link = linked()
    for frames in ([b"GET / HTTP/1.1"], [b"DMSH" + bytes(28), b"\x90"], [], [b"x", b"y"]):
        world.network.carry("stranger", "drafter", frames)
        world.network.carry("verifier", "drafter", frames)
    say(world, verifier, link, "unharmed")
    assert words(world.turn()["drafter"]) == ["unharmed"]
    assert (drafter.counters["frames_unreadable"], drafter.links) == (8, (link,))


def test_a_stranger_without_a_hello_is_refused_and_not_remembered() -> None:
    world, _, drafter, link = linked()
    stranger = world.network.mesh("stranger")
    codec = Codec(CONFIG)
    stranger.send("drafter", codec.encode(Kind.DATA, 77, 1, 0, (word("let me in"),)))
    assert world.turn()["drafter"] == []
    [(_, answer)] = stranger.drain()
    assert (codec.decode(answer).kind, codec.decode(answer).link) == (Kind.REFUSE, 77)
    assert (list(drafter._lanes), drafter.links) == (["verifier"], (link,))


def test_a_peer_that_falls_silent_is_forgotten() -> None:
    world, verifier, drafter, link = linked()
    world.network.cut("verifier", "drafter")
    for _ in range(6):
        assert world.turn(0.5)["drafter"] == []
    assert world.turn(0.1)["drafter"] == [LinkDown(link, "silence")]
    assert drafter._lanes == {}
    world.network.heal()
    world.turn(0.5)
    assert (len(verifier.links), drafter.links) == (1, verifier.links)


def test_a_node_that_was_busy_reads_before_it_judges_silence() -> None:
    _, verifier, drafter, link = linked()
    for now in (0.5, 1.0, 1.5, 2.0, 2.5, 3.0):  # the drafter's loop is stuck
        verifier.drain(now)
    assert (down(drafter.drain(9.0)), drafter.links) == ([], (link,))


def test_a_node_in_the_middle_of_long_work_says_that_it_lives() -> None:
    world, verifier, drafter, link = linked()
    for _ in range(12):  # six seconds, in which the verifier reads nothing
        world.now += 0.5
        verifier.beat(world.now)
        assert down(drafter.drain(world.now)) == []
    assert down(world.turn()["verifier"]) == []
    assert (verifier.links, drafter.links) == ((link,), (link,))


def test_beats_are_said_when_they_are_due_and_not_oftener() -> None:
    world, verifier, drafter, _ = linked()
    drafter.drain(world.now)
    for _ in range(99):
        world.now += 0.01
        verifier.beat(world.now)
    assert len(drafter.mesh.drain()) == 1


def test_queued_frames_of_an_old_life_are_refused_and_a_new_link_begins() -> None:
    world, verifier, drafter, link = linked()
    say(world, verifier, link, "for the old one")
    drafter.mesh.close()
    world.network._nodes["drafter"] = drafter.mesh  # type: ignore[assignment]
    reborn = world.network.restart("drafter")
    world.nodes["drafter"] = Endpoint(reborn, CONFIG, DRAFTER, count(7000).__next__)
    events = world.turn()
    assert words(events["drafter"]) == []
    assert down(events["verifier"]) == [(link, "refused")]
    assert (verifier.links, world.nodes["drafter"].links) == ((7000,), (7000,))


# --- a transport that does not take everything ------------------------------------------------------------------------


def test_a_frame_that_the_transport_refuses_is_held_and_arrives_later_in_order() -> None:
    world, verifier, drafter, link = linked()
    mesh(verifier).willing = False
    assert say(world, verifier, link, "one")
    assert (verifier.held, verifier.writable(link)) == (True, False)
    assert not say(world, verifier, link, "not taken")
    assert words(world.turn()["drafter"]) == []
    mesh(verifier).willing = True
    assert words(world.turn()["drafter"]) == ["one"]
    assert (verifier.held, say(world, verifier, link, "two")) == (False, True)
    assert words(world.turn()["drafter"]) == ["two"]
    assert (verifier.links, drafter.links) == ((link,), (link,))


def test_beats_that_come_due_behind_a_held_frame_leave_no_hole() -> None:
    world, verifier, drafter, link = linked()
    mesh(verifier).willing = False
    say(world, verifier, link, "one")
    for _ in range(5):
        world.turn(0.5)
    mesh(verifier).willing = True
    heard = [words(world.turn(0.25)["drafter"]) for _ in range(8)]
    assert (heard, drafter.links, verifier.links) == ([["one"], *[[]] * 7], (link,), (link,))
    say(world, verifier, link, "two")
    assert words(world.turn()["drafter"]) == ["two"]


def test_a_beat_does_not_overtake_a_held_frame_when_room_appears_between_them() -> None:
    world, verifier, drafter, link = linked()
    mesh(verifier).refusals = 2
    say(world, verifier, link, "one")
    assert words(world.turn(0.5)["drafter"]) == ["one"]
    assert (verifier.links, drafter.links) == ((link,), (link,))


def test_a_refused_beat_is_held_too() -> None:
    world, verifier, drafter, link = linked()
    mesh(verifier).willing = False
    world.turn(0.5)
    mesh(verifier).willing = True
    beats = [event for event in world.turn()["drafter"] if isinstance(event, Received)]
    beat = Heartbeat(sent=500_000)
    assert (beats, drafter.links) == ([Received(link, (beat,))], (link,))


def test_what_was_held_for_a_link_that_ended_is_never_said() -> None:
    world, verifier, drafter, link = linked()
    mesh(verifier).willing = False
    say(world, verifier, link, "too late")
    world.turn(3.1)
    mesh(verifier).willing = True
    heard = [word for _ in range(4) for word in words(world.turn(0.5)["drafter"])]
    assert (heard, verifier.held, verifier.links) == ([], False, drafter.links)
    assert link not in verifier.links


def test_an_answerer_that_holds_a_frame_still_says_that_a_link_is_over() -> None:
    world, verifier, drafter, link = linked()
    mesh(drafter).willing = False
    say(world, drafter, link, "held")
    world.lost = 1
    say(world, verifier, link, "lost")
    say(world, verifier, link, "two")
    mesh(drafter).willing = True
    drafter.drain(world.now)
    assert down(verifier.drain(world.now)) == [(link, "refused")]


def test_unsequenced_words_that_the_transport_refuses_are_said_again_by_themselves() -> None:
    world = World()
    verifier, drafter = world.node("verifier", VERIFIER), world.node("drafter")
    mesh(verifier).willing = False
    verifier.dial("drafter", 0.0)
    world.turn()
    assert (verifier.held, verifier.counters["frames_held"]) == (False, 1)
    mesh(verifier).willing = True
    world.turn(0.5)
    assert (len(verifier.links), drafter.links) == (1, verifier.links)


# --- the window ---------------------------------------------------------------------------------------------------


def test_a_reader_that_does_not_turn_stops_the_sender_at_its_window() -> None:
    world, verifier, _, link = linked()
    said = [say(world, verifier, link, str(number)) for number in range(12)]
    assert said == [True] * 8 + [False] * 4


def test_a_reader_that_turns_opens_the_window_without_waiting_for_a_beat() -> None:
    world, verifier, drafter, link = linked()
    heard = []
    for number in range(100):
        assert say(world, verifier, link, str(number))
        heard += words(drafter.drain(world.now))
        verifier.drain(world.now)
    assert heard == [str(number) for number in range(100)]


def test_the_window_counts_what_really_travels() -> None:
    world, verifier, _, link = linked()
    assert say(world, verifier, link, "x" * 65_000)
    assert verifier.writable(link)
    assert say(world, verifier, link, "x" * 600)
    assert not verifier.writable(link)
    world.turn()
    assert verifier.writable(link)


def test_a_silent_reader_with_a_closed_window_does_not_hold_the_sender_for_ever() -> None:
    world, verifier, _, link = linked()
    while say(world, verifier, link, "x"):
        pass
    world.network.cut("drafter", "verifier")
    assert [down(world.turn(seconds)["verifier"]) for seconds in (2.9, 0.2)] == [
        [],
        [(link, "silence")],
    ]


# --- time ---------------------------------------------------------------------------------------------------------


def test_the_deadline_is_that_of_the_most_urgent_link() -> None:
    world, verifier, drafter, link = linked()
    verifier.dial("nowhere", 0.0)
    verifier.drain(0.2)
    say(world, verifier, link, "news")
    assert (verifier.deadline(), drafter.deadline()) == (0.5, 0.5)


def test_a_node_without_links_has_no_deadline() -> None:
    assert World().node("alone").deadline() == float("inf")


def test_the_heartbeat_that_was_set_last_is_what_peers_hear() -> None:
    world, _, drafter, link = linked()
    drafter.heartbeat = Heartbeat("draining", 3)
    beat = Heartbeat("draining", 3, sent=500_000, echo=500_000)
    assert world.turn(0.5)["verifier"] == [Received(link, (beat,))]


def test_a_node_that_drains_says_so_at_once_and_once() -> None:
    world, _, drafter, link = linked()
    drafter.heartbeat = Heartbeat("draining", 3)
    beat = Heartbeat("draining", 3, sent=100_000)
    assert world.turn(0.1)["verifier"] == [Received(link, (beat,))]
    assert world.turn(0.1)["verifier"] == []


def test_quiet_links_live_without_loss_redial_or_growth() -> None:
    world, verifier, drafter, link = linked()
    for _ in range(400):
        world.turn(0.5)
    assert (verifier.links, drafter.links) == ((link,), (link,))
    assert verifier.counters == drafter.counters == {"links_up": 1}


def test_facts_tell_of_frames_and_links_and_of_the_way_to_each_peer() -> None:
    world, verifier, drafter, _ = linked()
    assert verifier.facts() == Facts(
        {
            "frames": {"unreadable": 0, "dropped": 0, "held": 0},
            "links_begun": {"": 1},
            "links_ended": {},
        },
        {
            "links": {"": 1.0},
            "round_trip_seconds": {},
            "clock_ahead": {},
            "clock_doubt": {},
            "clock_day": {},
            "weights": {"w": 1.0},
            "method": {},
            "device": {},
        },
    )
    for _ in range(4):
        world.turn(0.5)
    for name in ("round_trip_seconds", "clock_ahead", "clock_doubt"):
        assert verifier.facts().gauges[name].keys() == {"drafter-0"}
    drafter.mesh.send("verifier", [b"what", b"ever"])
    world.turn()
    verifier.hang_up("drafter")
    assert verifier.facts().counters["frames"]["unreadable"] == 1
    gauges = verifier.facts().gauges
    assert (gauges["links"], gauges["round_trip_seconds"]) == ({"": 0.0}, {})
