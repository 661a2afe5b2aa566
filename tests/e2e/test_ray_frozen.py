"""Whoever is frozen on a Ray cluster: an actor counts as lost within its bound, a process that it keeps does not."""

import signal
from pathlib import Path
from time import monotonic
from typing import Final

import psutil
import pytest
import yaml

from tests.e2e import ray_nodes
from tests.e2e.ray_nodes import live, load, roles, texts
from tests.e2e.service import until, up
from tests.models import write_byte_llama

pytestmark = [pytest.mark.full, pytest.mark.timeout(600)]
SILENCE: Final = 6.0


def test_a_frozen_actor_is_lost_and_a_frozen_process_is_not(tmp_path: Path) -> None:
    model = tmp_path / "model"
    model.mkdir()
    write_byte_llama(model)
    (tmp_path / "draftmesh.yaml").write_text(yaml.safe_dump({"ray": {"silence": SILENCE}}))
    flags = ("--drafters", "1", "--dtype", "float32")
    with (
        ray_nodes.cluster(nodes=2),
        up(str(model), tmp_path, *flags) as service,
        load(service) as answers,
    ):
        until(lambda: live(service) == 1, "the drafter has a link")
        drafter = roles()["drafter-0"]
        drafter.send_signal(signal.SIGSTOP)
        frozen = monotonic()
        until(lambda: live(service) == 0, "its link is over")
        until(lambda: monotonic() > frozen + 2 * SILENCE, "longer than an actor may be silent")
        drafter.send_signal(signal.SIGCONT)
        until(lambda: live(service) == 1, "it has a link again")
        assert roles()["drafter-0"] == drafter, "its actor answered all the while"

        actor = drafter.parent()
        assert actor is not None
        actor.send_signal(signal.SIGSTOP)
        until(lambda: _over(drafter), "what a frozen actor keeps is ended")
        until(lambda: "drafter-0" in roles() and live(service) == 1, "it is there again")
        assert roles()["drafter-0"].parent() != actor
        until(lambda: _over(actor), "the frozen actor is gone")
        count = len(answers)
        until(lambda: len(answers) > count + 3, "requests go on")
    assert len(texts(answers)) == 1, "no request failed, and no text changed"
    until(lambda: not roles(), "nothing is left after an orderly end")


def _over(process: psutil.Process) -> bool:
    return not process.is_running() or process.status() == psutil.STATUS_ZOMBIE
