"""Who is who when processes come and go: links tell lives apart, names and addresses never do.

| case | outcome |
| --- | --- |
| the same name and address, a new process | the old link is refused, a new one begins; no old word is read |
| the same name at another address | a link of its own; the old one ends by silence, or with its address on the list |
| one DNS name, another address | we look it up again: hung up on at the old address, dialled at the new |
| two processes that claim one name | two links; the end of one is nothing to the other |
| two processes at one address | the second cannot bind, and says so |
"""

from itertools import count

import pytest

from protocol.endpoint import Endpoint
from protocol.errors import LocalError
from protocol.link import LinkUp
from protocol.loop import Dialled
from protocol.names import Names
from protocol.process import Peers
from protocol.zmq_mesh import ZmqMesh
from tests.protocol.pair import CONFIG, DRAFTER, VERIFIER, down
from tests.protocol.test_endpoint import World, linked, say, words


def test_the_same_name_and_address_with_a_new_process() -> None:
    world, verifier, _, link = linked()
    say(world, verifier, link, "for the old life")
    world.nodes["drafter"] = Endpoint(
        world.network.mesh("drafter"), CONFIG, DRAFTER, count(7000).__next__
    )
    say(world, verifier, link, "said before anybody knew")
    events = world.turn()
    assert words(events["drafter"]) == []
    assert down(events["verifier"]) == [(link, "refused")]
    assert verifier.links == world.nodes["drafter"].links == (7000,)


def test_the_same_name_at_another_address() -> None:
    world, verifier, _, old = linked()
    world.network.kill("drafter")
    world.node("elsewhere", DRAFTER)
    verifier.dial("elsewhere", world.now)
    ups = [each for each in world.turn()["verifier"] if isinstance(each, LinkUp)]
    assert [each.node_id for each in ups] == [DRAFTER.node_id]
    assert set(verifier.links) == {old, ups[0].link}
    ended = [each for _ in range(7) for each in down(world.turn(0.5)["verifier"])]
    assert ended == [(old, "silence")]
    assert verifier.links == (ups[0].link,)


def test_one_dns_name_whose_address_changes() -> None:
    world = World()
    verifier = world.node("verifier", VERIFIER)
    for address in ("tcp://10.0.0.1:7", "tcp://10.0.0.2:7"):
        world.node(address)
    where = ["10.0.0.1"]
    lists: list[Peers] = []
    names = Names(lists.append, lambda _host: list(where))
    dialled = Dialled(verifier)

    def look() -> None:
        names.look(["tcp://drafters.example:7"])
        dialled.update(names.numeric(Peers(("tcp://drafters.example:7",))).addresses, world.now)
        world.turn()

    look()
    [first] = world.nodes["tcp://10.0.0.1:7"].links
    where[:] = ["10.0.0.2"]
    look()
    assert world.nodes["tcp://10.0.0.1:7"].links == ()
    [second] = world.nodes["tcp://10.0.0.2:7"].links
    assert verifier.links == (second,)
    assert first != second


def test_two_processes_that_claim_one_name() -> None:
    world = World()
    verifier, one, other = world.node("verifier", VERIFIER), world.node("one"), world.node("other")
    verifier.dial("one", 0.0)
    verifier.dial("other", 0.0)
    ups = [each for each in world.turn()["verifier"] if isinstance(each, LinkUp)]
    assert [each.node_id for each in ups] == [DRAFTER.node_id] * 2
    verifier.hang_up("one")
    world.turn()
    assert (one.links, verifier.links) == ((), other.links)
    assert say(world, verifier, other.links[0], "to the other")
    assert words(world.turn()["other"]) == ["to the other"]


def test_two_processes_at_one_address() -> None:
    first = ZmqMesh("tcp://127.0.0.1:*")
    try:
        with pytest.raises(LocalError, match="cannot bind"):
            ZmqMesh(first.address)
    finally:
        first.close()
