"""Faults planted into the code on purpose: the simulation is worth what it notices of them.

A fault is a small edit of one method, compiled again and put back when the context ends. An edit that no longer fits
the source fails loudly: then the fault must be written anew. Those that no history shows are kept with the reason
(`Fault.unseen`): most are covered by a second rule, so that all they cost is time.

- DraftClose of any epoch; mirror of another epoch takes commits; second mirror beside the first: one link keeps order,
  and on another link the mirrors are gone.
- Refuse(link) ignored; no Refuse(link): silence says the same, later.
- no Refuse(unknown): a mirror goes only with its link, or with a refusal that was said before.
- cut never ends: a newer base ends it too.
- gap without a new dial: nothing behind a gap is read, so silence ends the link, later.
- close after open: both wait only behind a closed window, and then the epoch of the close fences it.
- drained drafter chosen: it refuses by itself.
- chunk of an older lease taken: it must come behind a newer lease of its request, as in no history of 5,500;
  `tests/sim/test_rare.py` has the story.
- chunk out of turn taken: links keep order, and none of 2,000 histories has a giver that does not; it has a story, too.
- abort unheard: time ends the lease too.
- prefix hits not told: the next forward tells of them, or the verifier computes them itself.
- no early acknowledgements: the next heartbeat acknowledges too.
"""

import json
from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager
from itertools import chain
from pathlib import Path
from typing import Final

from tests.sim.edits import Fault, applied
from tests.sim.faults_of_handover import HANDOVER
from tests.sim.faults_of_links import LINKS
from tests.sim.faults_of_serving import SERVING
from tests.sim.faults_of_speculation import SPECULATION
from tests.sim.history import History

KNOWN: Final = Path(__file__).with_name("noticed.json")
PLANTED: Final[Mapping[str, Fault]] = {**SPECULATION, **LINKS, **SERVING, **HANDOVER}


def planted(name: str) -> AbstractContextManager[None]:
    """The code has this fault inside the context."""
    return applied(PLANTED[name])


def noticed(name: str, histories: int, first: Iterable[int] = ()) -> tuple[int, str] | None:
    """How many histories it took to notice the fault, and what was noticed; None if that many show nothing.

    Seeds are tried in order; those of `first`, which are known to show it, before all others.
    """
    with planted(name):
        for count, seed in enumerate(chain(first, range(histories)), 1):
            try:
                History(seed).run()
            except Exception as error:  # noqa: BLE001  # a fault may break anything
                return count, f"{type(error).__name__}: {error}"
    return None


def known() -> dict[str, int]:
    """By fault, the first seed that showed it when all were last tried: `python -m tests.sim --planted --note`."""
    seeds: dict[str, int] = json.loads(KNOWN.read_text(encoding="utf-8"))
    return seeds


def note(counts: Mapping[str, int]) -> None:
    """Remember how many histories each fault took."""
    seeds = {name: count - 1 for name, count in sorted(counts.items())}
    KNOWN.write_text(json.dumps(seeds, indent=1) + "\n", encoding="utf-8")
