"""A drafter without its target asks verifiers until one has lent it everything."""

from collections import defaultdict

import pytest

from drafter.fetching import Fetching
from engine.errors import EngineError
from protocol.link import LinkDown, LinkUp, Received
from protocol.messages import AnyMessage, Blob, Fingerprint, Refuse
from verifier import lending
from verifier.lending import Lending, Loan

IMAGE = bytes(range(256)) * 16


class Memory:
    """A shelf; `wrong` says which image turns out to be none."""

    def __init__(self, wrong: str = "") -> None:
        self.parts: defaultdict[str, bytes] = defaultdict(bytes)
        self.whole: dict[str, bytes] = {}
        self.wrong = wrong

    def size(self, weights: str) -> int:
        return len(self.parts[weights])

    def put(self, weights: str, data: bytes) -> None:
        self.parts[weights] += data

    def finish(self, weights: str) -> None:
        data = self.parts.pop(weights)
        if weights == self.wrong:
            raise EngineError("is of other weights")
        self.whole[weights] = data

    def finished(self, weights: str) -> bool:
        return weights in self.whole


class World:
    """One that fetches, and verifiers by link."""

    def __init__(self, shelf: Memory, **weights: str) -> None:
        self.shelf = shelf
        self.core = Fetching(shelf)
        self.verifiers: dict[int, Lending] = {}
        for link, (name, hash_) in enumerate(weights.items(), 1):
            loan = None if name == "poor" else Loan(hash_, len(IMAGE), lambda at, n: IMAGE[at:][:n])
            self.verifiers[link] = Lending(loan)
            self.verifiers[link].link_up(link)
            self.core.handle(LinkUp(link, "verifier", name, fingerprint=Fingerprint(hash_)))

    def turn(self) -> bool:
        """One frame in each direction; False when nobody says anything."""
        said = False
        for link in self.core.links_with_news:
            for message in self.core.outbox(link):
                assert isinstance(message, Blob)
                self.verifiers[link].asked(link, message)
                said = True
        for link, verifier in list(self.verifiers.items()):
            if words := verifier.messages(link):
                self.hear(link, *words)
                said = True
        return said

    def hear(self, link: int, *messages: AnyMessage) -> None:
        self.core.handle(Received(link, messages))

    def down(self, link: int) -> None:
        del self.verifiers[link]
        self.core.handle(LinkDown(link, "silence"))

    def run(self) -> None:
        while self.turn():
            pass


@pytest.fixture(autouse=True)
def _small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lending, "PIECE", 1000)


def test_an_image_comes_in_pieces() -> None:
    world = World(Memory(), a="w")
    world.turn()
    assert world.shelf.size("w") == 1000
    assert not world.shelf.whole
    world.run()
    assert world.core.got == "w"
    assert world.shelf.whole["w"] == IMAGE


def test_another_verifier_of_the_same_weights_goes_on_where_the_first_broke_off() -> None:
    world = World(Memory(), a="w", b="w")
    world.turn()
    world.turn()
    first = world.verifiers[1]
    world.down(1)
    world.run()
    assert world.shelf.whole["w"] == IMAGE
    assert first.counters["bytes"] == 2000
    assert world.verifiers[2].counters["bytes"] == len(IMAGE) - 2000


def test_a_verifier_that_lends_nothing_is_left_for_the_next() -> None:
    world = World(Memory(), poor="w", b="v")
    world.run()
    assert world.core.got == "v"


def test_what_is_there_is_not_asked_for() -> None:
    shelf = Memory()
    shelf.whole["w"] = IMAGE
    world = World(shelf, a="w")
    assert world.core.got == "w"
    assert not world.core.links_with_news


def test_what_was_all_here_and_never_unpacked_is_not_sent_again() -> None:
    """A drafter that ended between the last piece and its end."""
    shelf = Memory()
    shelf.put("w", IMAGE)
    world = World(shelf, a="w")
    world.run()
    assert world.core.got == "w"
    assert world.verifiers[1].counters["bytes"] == 0


@pytest.mark.parametrize("weights", ["", "../../etc", "a/b"])
def test_what_is_no_hash_names_no_folder(weights: str) -> None:
    world = World(Memory(), odd=weights, b="v")
    world.run()
    assert world.core.got == "v"
    assert world.shelf.parts.keys() <= {"v"}


def test_an_image_that_is_none_is_thrown_away_and_the_next_verifier_asked() -> None:
    world = World(Memory(wrong="w"), a="w", b="v")
    world.run()
    assert world.core.got == "v"
    assert "w" not in world.shelf.whole


@pytest.mark.parametrize(
    "piece",
    [
        Blob("v", 0, 4096, b"x"),
        Blob("w", 7, 4096, b"x"),
        Blob("w", 0, 4096, b""),
        Blob("w", 0, 0, b"x"),
    ],
    ids=["other weights", "a gap", "nothing in it", "beyond the end"],
)
def test_a_piece_that_does_not_fit_is_not_kept(piece: Blob) -> None:
    world = World(Memory(), a="w")
    world.core.outbox(1)
    world.hear(1, piece)
    assert not world.shelf.size("w")
    assert not world.core.links_with_news, "this verifier is not asked again on this link"


def test_pieces_of_a_link_that_was_not_asked_are_nothing() -> None:
    world = World(Memory(), a="w", b="w")
    world.hear(2, Blob("w", 0, 4096, IMAGE[:10]))
    assert not world.shelf.size("w")


@pytest.mark.parametrize(
    ("ask", "text"),
    [
        (Blob("other", 0, 0, b""), "asked for weights other, this verifier has weights w"),
        (Blob("w", len(IMAGE) + 1, 0, b""), "asked from byte 4097 on, there are 4096"),
    ],
)
def test_what_cannot_be_lent_is_refused_with_the_reason(ask: Blob, text: str) -> None:
    world = World(Memory(), a="w")
    verifier = world.verifiers[1]
    verifier.asked(1, ask)
    (refusal,) = verifier.messages(1)
    assert isinstance(refusal, Refuse)
    assert refusal.text == text
    assert not verifier.messages(1)
