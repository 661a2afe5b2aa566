"""What all loops share: saying what a core wants said, waiting, and keeping a list of peers dialled."""

from itertools import count

import pytest

from protocol.endpoint import Endpoint
from protocol.link import Event, Received
from protocol.local_mesh import LocalMesh, LocalNetwork
from protocol.loop import HELD_RETRY, LOOK_EVERY, Beats, Dialled, Reporter, pause, say
from protocol.mesh import Frames, Peer
from protocol.messages import AnyMessage, Facts, Heartbeat, Report
from tests.protocol.pair import CONFIG, DRAFTER, VERIFIER, down, word


class Waits(LocalMesh):
    """A mesh that notes how long it is asked to wait."""

    def __init__(self, network: LocalNetwork, address: str) -> None:
        super().__init__(network, address)
        network._nodes[address] = self
        self.waited: list[float] = []
        self.willing = True

    def wait(self, seconds: float) -> None:
        self.waited.append(seconds)

    def send(self, peer: Peer, frames: Frames) -> bool:
        return self.willing and super().send(peer, frames)


class Chatter:
    """A core with a fixed number of things to say to every link."""

    def __init__(self, backlog: dict[int, int]) -> None:
        self.backlog = backlog

    @property
    def links_with_news(self) -> list[int]:
        return [link for link, left in self.backlog.items() if left]

    def outbox(self, link: int) -> list[AnyMessage]:
        if not self.backlog[link]:
            return []
        self.backlog[link] -= 1
        return [word("news")]

    def heartbeat(self) -> Heartbeat:
        return Heartbeat("draining", 1)


class World:
    """A verifier's endpoint and two drafters' on one network."""

    def __init__(self) -> None:
        self.now = 0.0
        network = LocalNetwork(lambda: self.now)
        numbers = count(1)
        self.mesh = Waits(network, "verifier")
        self.verifier = Endpoint(self.mesh, CONFIG, VERIFIER, numbers.__next__)
        self.drafters = [
            Endpoint(network.mesh(name), CONFIG, DRAFTER, numbers.__next__) for name in ("a", "b")
        ]

    def turn(self) -> None:
        for _ in range(3):
            self.verifier.drain(self.now)
            for drafter in self.drafters:
                drafter.drain(self.now)


def test_a_list_of_peers_is_dialled_and_what_leaves_the_list_is_hung_up_on() -> None:
    world = World()
    dialled = Dialled(world.verifier)
    assert dialled.update(["a", "b", "a"], world.now) == []
    world.turn()
    first, second = world.verifier.links
    assert down(dialled.update(["b"], world.now)) == [(first, "hung up")]
    assert dialled.update(["b"], world.now) == []
    assert world.verifier.links == (second,)


def test_a_peer_that_comes_back_to_the_list_is_dialled_anew() -> None:
    world = World()
    dialled = Dialled(world.verifier)
    for peers in (["a"], [], ["a"]):
        dialled.update(peers, world.now)
        world.turn()
    assert len(world.verifier.links) == 1
    assert world.verifier.links == world.drafters[0].links


def test_a_node_that_computes_for_long_lives_for_its_peers() -> None:
    """Twice the silence that ends a link, in the middle of work that looks up every tenth of a second."""
    world = World()
    Dialled(world.verifier).update(["a", "b"], world.now)
    world.turn()
    beats, ended = Beats(world.verifier, lambda: world.now), []
    for layer in range(int(2 * CONFIG.silence / LOOK_EVERY)):
        world.now += LOOK_EVERY
        beats(layer)
        ended += [down(drafter.drain(world.now)) for drafter in world.drafters]
    assert not any(ended)


def test_between_two_looks_at_the_links_nothing_is_looked_at(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World()
    looked: list[float] = []
    monkeypatch.setattr(world.verifier, "beat", looked.append)
    beats = Beats(world.verifier, lambda: world.now)
    for _ in range(100):
        beats()
        world.now += LOOK_EVERY / 10
    assert 9 <= len(looked) <= 11


def test_every_link_is_told_what_its_window_allows() -> None:
    world = World()
    Dialled(world.verifier).update(["a", "b"], world.now)
    world.turn()
    first, second = world.verifier.links
    core = Chatter({first: 12, second: 3, 999: 1})
    say(core, world.verifier, world.now)
    assert core.backlog == {first: 4, second: 0, 999: 1}
    assert world.verifier.heartbeat == Heartbeat("draining", 1)


def test_a_pause_lasts_until_the_nearest_deadline() -> None:
    world = World()
    world.verifier.dial("a", 0.0)
    world.turn()
    pause(world.verifier, lambda: 0.1)
    pause(world.verifier, lambda: 0.1, deadline=0.3)
    pause(world.verifier, lambda: 0.6)
    assert [round(each, 3) for each in world.mesh.waited] == [0.4, 0.2, -0.1]


def test_a_pause_without_links_and_deadlines_lasts_until_somebody_comes() -> None:
    world = World()
    pause(world.verifier, lambda: 0.1)
    assert world.mesh.waited == [float("inf")]


def test_a_pause_is_short_while_a_frame_waits_for_the_transport() -> None:
    world = World()
    world.verifier.dial("a", 0.0)
    world.turn()
    world.mesh.willing = False
    say(Chatter({world.verifier.links[0]: 1}), world.verifier, world.now)
    pause(world.verifier, lambda: 0.1)
    assert world.mesh.waited == [HELD_RETRY]


# --- reports -----------------------------------------------------------------------------------------------------


def reports(events: list[Event]) -> list[Report]:
    received = [each for each in events if isinstance(each, Received)]
    return [said for each in received for said in each.messages if isinstance(said, Report)]


class Reporting(World):
    """The verifier tells drafter `a` what it counted: how often it was asked."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = 0
        self.reporter = Reporter(self.verifier)
        Dialled(self.verifier).update(["a"], self.now)
        self.turn()

    def facts(self) -> Facts:
        self.asked += 1
        return Facts({"asked": {"": self.asked}})

    def report(self, seconds: float = 0.0) -> list[int]:
        """What the drafter hears of it after so long, as the numbers of the reports."""
        self.now += seconds
        self.reporter.turn(self.verifier.links, self.now, self.facts)
        return [each.number for each in reports(self.drafters[0].drain(self.now))]


def test_a_new_peer_is_told_at_once_then_once_a_second() -> None:
    world = Reporting()
    told = [world.report(seconds) for seconds in (0.0, 0.1, 0.8, 0.2, 0.9, 0.1)]
    assert (told, world.asked) == ([[1], [], [], [2], [], [3]], 3)


def test_a_report_says_whose_it_is_and_holds_the_facts_of_the_links_too() -> None:
    world = Reporting()
    world.reporter.turn(world.verifier.links, world.now, world.facts)
    [report] = reports(world.drafters[0].drain(world.now))
    assert (report.node_id, report.role, report.number) == ("verifier-0", "verifier", 1)
    assert report.facts.counters["asked"] == {"": 1}
    assert report.facts.counters["links_begun"] == {"": 1}


def test_what_others_reported_is_passed_on_behind_the_own_report() -> None:
    world = Reporting()
    other = Report("drafter-9", "drafter", 5)
    world.reporter.turn(world.verifier.links, world.now, world.facts, lambda: [other])
    assert [each.number for each in reports(world.drafters[0].drain(world.now))] == [1, 5]


def test_a_peer_that_cannot_be_told_now_hears_the_next_report_and_no_backlog() -> None:
    world = Reporting()
    link = world.verifier.links[0]
    while world.verifier.writable(link):
        world.verifier.send(link, [word("much")], world.now)
    told = [world.report()]
    told += [world.report(1.0), world.report(1.0)]
    assert told[0] == []
    assert sum(map(len, told)) == 0
    world.drafters[0].drain(world.now)
    world.turn()
    world.verifier.drain(world.now)
    assert world.report(1.0) == [4]


def test_a_link_that_comes_after_another_is_told_at_once() -> None:
    world = Reporting()
    assert (world.report(), world.report(0.1)) == ([1], [])
    dialled = Dialled(world.verifier)
    dialled.update(["a"], world.now)
    dialled.update([], world.now)
    dialled.update(["a"], world.now)
    world.turn()
    assert world.report() == [2]
