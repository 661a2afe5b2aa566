"""From a configuration to processes."""

from pathlib import Path

import pytest
from pydantic import ValidationError

from drafter.config import DrafterConfig
from orchestrator.config import Config
from orchestrator.front.config import FrontConfig
from orchestrator.launch.plan import Place, alone, children
from verifier.config import DraftsConfig, FeaturesConfig, VerifierConfig

TARGET, DRAFT = Path("/models/target"), Path("/models/draft")


def test_parts_get_what_is_decided_for_all() -> None:
    config = Config.model_validate(
        {
            "target": "tiny",
            "verifiers": 2,
            "drafters": 1,
            "dtype": "float32",
            "method": "ngram",
            "draft_length": 3,
            "port": 1,
            "link": {"beat": 0.1},
            "verifier": {"page_size": 4},
        }
    )
    front, one, two, drafter = (child.config for child in children(config, TARGET, DRAFT, 4))
    assert isinstance(front, FrontConfig)
    assert (front.name, front.model, front.port, front.link.beat) == ("tiny", TARGET, 1, 0.1)
    assert isinstance(one, VerifierConfig)
    assert (one.node_id, two.node_id) == ("verifier-0", "verifier-1")
    assert (one.model, one.dtype, one.planner.draft_length) == (TARGET, "float32", 3)
    assert (one.page_size, one.threads, one.link.beat) == (4, 2, 0.1)
    assert isinstance(drafter, DrafterConfig)
    assert (drafter.method, drafter.model, drafter.dtype) == ("ngram", DRAFT, "float32")
    assert drafter.target == TARGET


def test_what_a_part_says_for_itself_wins() -> None:
    config = Config.model_validate(
        {"drafter": {"dtype": "bfloat16"}, "dtype": "float32", "verifier": {"threads": 1}}
    )
    _, verifier, drafter, _ = children(config, TARGET, None, 8)
    assert (verifier.config.threads, drafter.config.dtype) == (1, "bfloat16")  # type: ignore[union-attr]
    assert verifier.environment["OMP_NUM_THREADS"] == "1"


@pytest.mark.parametrize(
    ("method", "how", "told"),
    [
        ("dflash", "probabilistic", DraftsConfig(draws="at once", confidence="largest")),
        ("dspark", "probabilistic", DraftsConfig(draws="one by one", confidence="head")),
        ("dspark", "greedy", DraftsConfig()),
        ("suffix", "probabilistic", DraftsConfig()),
    ],
)
def test_verifiers_are_told_how_their_drafters_guess(
    method: str, how: str, told: DraftsConfig
) -> None:
    config = Config.model_validate({"method": method, "drafter": {"draft_sample_method": how}})
    verifier = children(config, TARGET, DRAFT, 4)[1].config
    assert isinstance(verifier, VerifierConfig)
    assert verifier.drafts == told
    with pytest.raises(ValidationError, match=r"verifier\.drafts is decided by `method`"):
        Config.model_validate({"verifier": {"drafts": {}}})


def test_a_draft_head_is_known_on_both_sides() -> None:
    kept = FeaturesConfig(states=(2, 15, 27), draft=DRAFT, fc="fc.weight")
    config = Config(method="eagle3", overlap=False)
    config = config.model_copy(
        update={"verifier": config.verifier.model_copy(update={"features": kept})}
    )
    _, verifier, drafter, _ = (each.config for each in children(config, TARGET, DRAFT, 4))
    assert isinstance(verifier, VerifierConfig)
    assert verifier.features == kept
    assert not verifier.planner.overlap
    assert isinstance(drafter, DrafterConfig)
    assert (drafter.model, drafter.target, drafter.overlap) == (DRAFT, TARGET, False)


@pytest.mark.parametrize(
    ("said", "cores", "overlap"), [(None, 2, False), (None, 8, True), (True, 2, True)]
)
def test_drafters_run_ahead_unless_cores_are_few_or_as_the_user_says(
    said: bool | None, cores: int, overlap: bool
) -> None:
    config = Config(method="eagle3", overlap=said, drafters=1)
    _, verifier, drafter = (each.config for each in children(config, TARGET, DRAFT, cores))
    assert isinstance(verifier, VerifierConfig)
    assert isinstance(drafter, DrafterConfig)
    assert verifier.planner.overlap == drafter.overlap == overlap


def test_a_role_with_a_machine_of_its_own_never_waits_for_cores() -> None:
    config = Config(method="eagle3", drafters=1)
    for role in ("verifier", "drafter"):
        config_of = alone(config, role, Place(role), (TARGET, DRAFT), 2).config
        assert isinstance(config_of, VerifierConfig | DrafterConfig)
        runs_ahead = (
            config_of.planner.overlap
            if isinstance(config_of, VerifierConfig)
            else config_of.overlap
        )
        assert runs_ahead
        assert config_of.threads == 2


def test_a_child_can_be_configured_from_its_own_json() -> None:
    for child in children(Config(), TARGET, DRAFT, 2):
        read = type(child.config).model_validate_json(child.config.model_dump_json())
        assert read == child.config


def test_all_parts_know_where_traces_go() -> None:
    config = Config(otlp_traces_endpoint="http://collector:4317", verifiers=2, drafters=2)
    parts = [child.config for child in children(config, TARGET, DRAFT, 4)]
    assert [part.otlp_traces_endpoint for part in parts] == ["http://collector:4317"] * 5


def test_trust_in_code_is_one_setting_and_off() -> None:
    for trusted in (False, True):
        config = Config(trust_remote_code=trusted)
        _, verifier, drafter, *_ = children(config, TARGET, DRAFT, 4)
        assert isinstance(verifier.config, VerifierConfig)
        assert isinstance(drafter.config, DrafterConfig)
        assert verifier.config.trust_remote_code == trusted
        assert drafter.config.trust_remote_code == trusted
    assert not Config().trust_remote_code
    for part in ("verifier", "drafter"):
        with pytest.raises(ValidationError, match="is decided by `trust_remote_code`"):
            Config.model_validate({part: {"trust_remote_code": True}})


def test_a_process_alone_has_all_cores_and_knows_the_whole_service() -> None:
    config = Config.model_validate({"verifiers": 4, "drafters": 8, "method": "standalone"})
    models = (TARGET, DRAFT)
    verifier = alone(
        config, "verifier", Place("v-7", "tcp://0.0.0.0:7400", ("tcp://d:1",)), models, 6
    )
    assert isinstance(verifier.config, VerifierConfig)
    assert (verifier.name, verifier.config.threads) == ("v-7", 6)
    assert (verifier.config.bind, verifier.config.drafters) == (
        "tcp://0.0.0.0:7400",
        ("tcp://d:1",),
    )
    drafter = alone(config, "drafter", Place("d-7"), models, 6).config
    assert isinstance(drafter, DrafterConfig)
    assert (drafter.threads, drafter.bind) == (6, "tcp://127.0.0.1:*")
    front = alone(config, "front", Place("f-7", dials=("tcp://v:1",)), models, 6).config
    assert isinstance(front, FrontConfig)
    assert front.verifiers == ("tcp://v:1",)
    assert front.service == config.shown(), "as it was asked for"


def test_a_prefill_node_alone_is_a_verifier_that_dials_nobody() -> None:
    asked = {"host": "0.0.0.0", "port": 9200}  # noqa: S104
    config = Config.model_validate({"verifiers": 2, "prefill": 3, "verifier": {"health": asked}})
    place = Place("p-7", "tcp://0.0.0.0:7400")
    node = alone(config, "prefill", place, (TARGET, DRAFT), 6)
    assert isinstance(node.config, VerifierConfig)
    assert (node.name, node.module, node.config.threads) == ("p-7", "verifier.prefill", 6)
    assert node.config.bind == "tcp://0.0.0.0:7400"
    assert node.config.health.port == 9200, "nobody else is asked at its machine"


def test_cores_are_dealt_out_over_all_ranks() -> None:
    config = Config.model_validate({"drafters": 0, "verifier": {"tensor_parallel": 2}})
    made = {child.role: child for child in children(config, Path("/target"), None, 8)}
    verifier = made["verifier"].config
    assert isinstance(verifier, VerifierConfig)
    assert (verifier.threads, verifier.tensor_parallel) == (4, 2)
    whole = alone(config, "verifier", Place("v"), (Path("/target"), None), 8).config
    assert isinstance(whole, VerifierConfig)
    assert whole.threads == 4


def test_a_rank_that_is_apart_has_all_cores_and_knows_where_they_meet() -> None:
    parts = {"drafters": 2, "verifier": {"tensor_parallel": 2, "ranks": "apart"}}
    config, models = Config.model_validate(parts), (Path("/target"), None)
    leader = alone(config, "verifier", Place("v", rendezvous="0.0.0.0:7500"), models, 8)
    follower = alone(config, "follower", Place("f", rendezvous="v:7500", rank=1), models, 8)
    assert follower.module == "verifier.follower"
    for child, rank, where in ((leader, 0, "0.0.0.0:7500"), (follower, 1, "v:7500")):
        own = child.config
        assert isinstance(own, VerifierConfig)
        assert (own.threads, own.rank, own.rendezvous) == (8, rank, where)


def test_prefill_nodes_and_ranks_do_not_go_together() -> None:
    parts = {"prefill": 1, "verifier": {"tensor_parallel": 2}}
    with pytest.raises(ValidationError, match=r"prefill 1 with verifier\.tensor_parallel 2: pages"):
        Config.model_validate(parts)
