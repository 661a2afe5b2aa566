"""`drafter corpus` against a real drafter over the in-process mesh."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from drafter.config import DrafterConfig
from drafter.core import DrafterCore
from drafter.corpus_cli import Command, CorpusError, additions, converse
from drafter.node import DrafterNode
from drafter.proposers import PROPOSERS
from protocol.config import LinkConfig
from protocol.endpoint import Endpoint
from protocol.link import Identity
from protocol.local_mesh import LocalNetwork
from protocol.messages import CorpusAdd, CorpusList, CorpusRemove, CorpusReport
from protocol.process import Stop
from protocol.runtime import draw

Say = Callable[..., CorpusReport]


@contextmanager
def drafter(method: str) -> Iterator[Say]:
    """A drafter in a thread; the value says commands to it and returns its last report."""
    network = LocalNetwork(time.monotonic)
    config = DrafterConfig(method=method)
    proposer = PROPOSERS[method](config)
    mesh = network.mesh("drafter")
    endpoint = Endpoint(mesh, LinkConfig(), Identity("drafter", "drafter-0"), draw)
    node = DrafterNode(DrafterCore(config, proposer), endpoint, proposer, time.monotonic)

    def serve() -> None:
        while not node.stopped:
            if not node.turn():
                node.pause()

    def say(*commands: Command) -> CorpusReport:
        tool = Endpoint(network.mesh("tool"), LinkConfig(), Identity("tool", "tool"), draw)
        node_id, report = converse(tool, "drafter", commands)
        assert node_id == "drafter-0"
        return report

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield say
    finally:
        node.command(Stop())
        mesh.wake()
        thread.join(10)


def test_documents_come_and_go() -> None:
    with drafter("suffix") as say:
        commands = list(additions("notes", [(1, 2, 3), (4, 5)], chunk=4))
        assert commands == [
            CorpusAdd("notes", ((1, 2, 3),)),
            CorpusAdd("notes", ((4, 5),), append=True),
        ]
        (entry,) = say(*commands).entries
        assert (entry.name, entry.documents, entry.tokens) == ("notes", 2, 5)
        assert [entry.name for entry in say(CorpusList()).entries] == ["notes"]
        assert say(CorpusRemove("notes")) == CorpusReport(())


def test_a_refusal_ends_the_conversation_with_its_reason() -> None:
    with drafter("suffix") as say:
        assert "nothing" in say(CorpusRemove("nothing"), CorpusList()).error
    with drafter("ngram") as say:
        assert say(CorpusList()).error == "method ngram holds no documents"


def test_a_drafter_that_is_not_there_is_not_waited_for_forever() -> None:
    mesh = LocalNetwork(time.monotonic).mesh("tool")
    tool = Endpoint(mesh, LinkConfig(), Identity("tool", "tool"), draw)
    with pytest.raises(CorpusError, match=r"no answer within 0\.1 s"):
        converse(tool, "nobody", [CorpusList()], answer=0.1)


def test_long_documents_are_cut_and_empty_ones_make_an_empty_corpus() -> None:
    assert list(additions("a", [(1, 2, 3, 4, 5)], chunk=2)) == [
        CorpusAdd("a", ((1, 2),)),
        CorpusAdd("a", ((3, 4),), append=True),
        CorpusAdd("a", ((5,),), append=True),
    ]
    assert list(additions("a", [()])) == [CorpusAdd("a", ())]
