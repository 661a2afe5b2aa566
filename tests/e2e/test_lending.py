"""A drafter process that has a head and nothing of its target: a verifier lends it what the head shares."""

import subprocess
import sys
from pathlib import Path

from drafter.config import DrafterConfig, HiddenConfig
from engine.weights import fingerprint
from orchestrator.heads import captured
from protocol.messages import Done, Ending, Submit
from protocol.process import Peers
from tests import heads
from tests.e2e.nodes import DEADLINE, door, hear, turning
from tests.e2e.service import until
from tests.models import write_byte_llama
from verifier.__main__ import build
from verifier.config import PlannerConfig, VerifierConfig


def test_it_asks_keeps_and_drafts(tmp_path: Path) -> None:
    target = tmp_path / "target"
    target.mkdir()
    write_byte_llama(target)
    shelf = tmp_path / "constants"
    config = DrafterConfig(
        method="dspark",
        model=heads.deepspec_dspark(tmp_path / "head"),
        dtype="float32",
        hidden=HiddenConfig(constants=shelf),
    )
    verifier = build(
        VerifierConfig(
            model=target,
            dtype="float32",
            threads=1,
            kv_bytes=16 << 20,
            planner=PlannerConfig(
                name="fixed", overlap=False, patience=DEADLINE
            ),  # it waits for the drafter
            features=captured(config.model_copy(update={"target": target})),
        )
    )
    drafter = subprocess.Popen(
        [sys.executable, "-m", "drafter", "--config", config.model_dump_json()],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert drafter.stdout is not None
    try:
        states = map(str.strip, drafter.stdout)
        address = next(line for line in states if '"fetching"' in line).split('"')[-2]
        with turning(verifier) as door_address, door(door_address) as front:
            verifier.command(Peers((address,)))
            verifier.endpoint.mesh.wake()
            ready = next(line for line in states if '"ready"' in line)
            assert address in ready, "verifiers know it by that address"
            until(lambda: bool(len(verifier.core.drafting.roster)), "the drafter is back", DEADLINE)
            submit = Submit(1, (20, 30, 40), Ending(40, ignore_eos=True))
            done = next(each for each in hear(front, submit) if isinstance(each, Done))
            assert done.statistics.drafted > 0
        assert (shelf / fingerprint(target) / "config.json").is_file()
    finally:
        drafter.terminate()
        assert drafter.wait(DEADLINE) == 0
        drafter.stdout.close()
        verifier.close()
