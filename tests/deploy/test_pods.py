"""What is rendered fits together, and fits our own programs."""

import re
from pathlib import Path
from typing import Any

import yaml

from orchestrator.commands.run import check
from orchestrator.front.config import KEY_VARIABLE
from orchestrator.front.keys import OPEN
from orchestrator.front.metric_table import METRICS
from orchestrator.launch.plan import DIALS, Child, Place, alone
from orchestrator.settings import RESERVED, load
from tests.deploy.chart import (
    FILES,
    Manifest,
    container,
    manifests,
    named,
    of_kind,
    pods,
    rendered,
    selected,
    settings,
    workloads,
)
from tests.deploy.typed import parsed

GROUP = {"verifier", "follower"}
"""Roles of pods that are ranks of one target."""
ENVIRONMENT = RESERVED | {KEY_VARIABLE, "HOME", "HF_HOME", "OTEL_RESOURCE_ATTRIBUTES"}
"""Variables that a program of ours, or a library that it uses, reads; those of the pod itself are POD_ and NODE_."""
INJECTED = {"LWS_LEADER_ADDRESS": "dm-0.dm.prod", "LWS_GROUP_SIZE": "2", "LWS_WORKER_INDEX": "1"}
"""Variables that LeaderWorkerSet puts in front of those of its pods."""
SERVES = {"verifier": "front", "drafter": "verifier", "prefill": "verifier"}

Found = tuple[Manifest, ...]


def child(found: Found, role: str, folder: Path) -> Child:
    """The process that a container becomes, by our own command line and configuration."""
    words = container(pods(found)[role])["args"]
    for name, value in INJECTED.items():
        words = [word.replace(f"$({name})", value) for word in words]
    given = parsed(words)
    assert (given["command"], given["role"]) == ("run", role)
    dials = tuple(given["dial"] or ())
    place = Place(given["name"], given["bind"], dials, given["rendezvous"], given["rank"])
    check(role, place)
    file = folder / "draftmesh.yaml"
    file.write_text(settings(found))
    return alone(load({}, file), role, place, (Path("/models/target"), Path("/models/draft")), 4)


def test_every_container_is_a_process_of_ours(found: Found, tmp_path: Path) -> None:
    for role in pods(found):
        process = child(found, role, tmp_path)
        assert (process.role, process.name) == (role, "$(POD_NAME)")


def test_ports_are_those_that_processes_listen_at(found: Found, tmp_path: Path) -> None:
    for role, pod in pods(found).items():
        process: Any = child(found, role, tmp_path).config
        ports = {each["name"]: each["containerPort"] for each in container(pod)["ports"]}
        if role == "front":
            wanted = {"http": process.port, "metrics": process.metrics_port}
            if process.grpc_port:
                wanted["grpc"] = process.grpc_port
            assert ports == wanted
            assert process.host == "0.0.0.0"
        else:
            if role != "follower":
                assert process.bind == f"tcp://0.0.0.0:{ports['mesh']}"
            if role == "verifier" and "rendezvous" in ports:
                assert process.rendezvous == f"0.0.0.0:{ports['rendezvous']}"
            assert (process.health.host, process.health.port) == ("0.0.0.0", ports["health"])


def test_pods_may_listen_on_the_newer_protocol(tmp_path: Path) -> None:
    found = tuple(manifests(FILES[0], **{"mesh.host": "[::]"}))
    front: Any = child(found, "front", tmp_path).config
    drafter: Any = child(found, "drafter", tmp_path).config
    assert (front.host, drafter.bind) == ("::", "tcp://[::]:7400")
    assert drafter.health.host == "::"


def test_who_is_dialled_is_a_headless_service_of_the_right_pods(
    found: Found, tmp_path: Path
) -> None:
    for role in DIALS.keys() & pods(found).keys():
        there = [each for each in DIALS[role] if each in pods(found)]
        process: Any = child(found, role, tmp_path).config
        addresses = getattr(process, f"{there[0]}s")
        for dialled, address in zip(there, addresses, strict=True):
            host, port = address.removeprefix("tcp://").split(":")
            service = named(found, "Service", host)["spec"]
            assert service["clusterIP"] == "None"
            assert service["publishNotReadyAddresses"], (
                "one that drains must be found until it is gone"
            )
            assert selected(found, service["selector"]) == [dialled]
            assert [each["port"] for each in service["ports"]] == [int(port)]
            ports = container(pods(found)[dialled])["ports"]
            assert {"name": "mesh", "containerPort": int(port)} in ports


def test_services_lead_to_ports_that_there_are(found: Found) -> None:
    for service in of_kind(found, "Service"):
        (role,) = selected(found, service["spec"]["selector"])
        there = {each["name"] for each in container(pods(found)[role])["ports"]}
        assert {each["targetPort"] for each in service["spec"]["ports"]} <= there


def test_probes_ask_what_answers_without_a_key(found: Found) -> None:
    for role, pod in pods(found).items():
        only = container(pod)
        there = {each["name"]: each["containerPort"] for each in only["ports"]}
        for kind in ("startupProbe", "livenessProbe", "readinessProbe"):
            probe = only[kind]
            if role != "front":
                assert probe["grpc"] == {"port": there["health"]}
                continue
            asked = probe["httpGet"]
            assert asked["port"] in there
            assert asked["path"] in OPEN
            if kind != "readinessProbe":
                assert asked["path"] == "/health", "life does not depend on peers"


def test_variables_are_known_and_defined_before_they_are_used(found: Found) -> None:
    for role, pod in pods(found).items():
        only = container(pod)
        known = set(INJECTED) if role == "follower" else set()
        for each in only["env"]:
            assert each["name"] in ENVIRONMENT or each["name"].startswith(("POD_", "NODE_"))
            assert set(re.findall(r"\$\((\w+)\)", each.get("value", ""))) <= known
            known.add(each["name"])
        assert set(re.findall(r"\$\((\w+)\)", " ".join(only["args"]))) <= known
        assert pod["spec"]["enableServiceLinks"] is False, "theirs would look like ours"


def test_volumes_and_mounts_belong_together(found: Found, tmp_path: Path) -> None:
    for role, pod in pods(found).items():
        only = container(pod)
        mounts = {each["name"]: each for each in only["volumeMounts"]}
        volumes = {each["name"]: each for each in pod["spec"]["volumes"]}
        assert mounts.keys() == volumes.keys()
        assert mounts["config"]["mountPath"] == only["args"][-1]
        assert volumes["config"]["configMap"]["name"] == "dm-config"
        process: Any = child(found, role, tmp_path).config
        if process.mesh.keys:
            assert mounts["keys"]["mountPath"] == str(process.mesh.keys)
        else:
            assert process.mesh.insecure
        cache = next(each for each in only["env"] if each["name"] == "DRAFTMESH_CACHE")
        assert mounts["cache"]["mountPath"] == cache["value"]
        for model in (process.model, getattr(process, "target", None)):
            if model and str(model).startswith("/models"):
                assert "models" not in volumes or mounts["models"]["mountPath"] == "/models"


def test_secrets_are_named_and_never_written(found: Found) -> None:
    for role, pod in pods(found).items():
        for each in container(pod)["env"]:
            if each["name"] == KEY_VARIABLE:
                assert role == "front", "nobody else needs it"
                assert each["valueFrom"]["secretKeyRef"] == {
                    "name": "draftmesh-api",
                    "key": "api-key",
                }
        for volume in pod["spec"]["volumes"]:
            if "secret" in volume:
                assert volume["secret"] == {"secretName": "draftmesh-mesh", "defaultMode": 0o440}
    assert not list(of_kind(found, "Secret"))


def test_every_role_has_a_budget_and_a_policy_of_its_own(found: Found) -> None:
    for kind in ("PodDisruptionBudget", "NetworkPolicy"):
        hit = [
            selected(
                found, (each["spec"].get("selector") or each["spec"]["podSelector"])["matchLabels"]
            )
            for each in of_kind(found, kind)
        ]
        assert sorted(hit) == sorted([role] for role in pods(found))


def test_the_mesh_is_open_between_the_roles_that_speak_and_to_nobody_else(found: Found) -> None:
    for policy in of_kind(found, "NetworkPolicy"):
        (role,) = selected(found, policy["spec"]["podSelector"]["matchLabels"])
        ports = {
            each["name"]: each["containerPort"] for each in container(pods(found)[role])["ports"]
        }
        for rule in policy["spec"]["ingress"]:
            (port,) = rule["ports"]
            if "port" not in port:
                (peer,) = rule["from"]
                assert {role, *selected(found, peer["podSelector"]["matchLabels"])} <= GROUP
                continue
            assert port["port"] in ports
            if port["port"] == "mesh":
                (peer,) = rule["from"]
                assert selected(found, peer["podSelector"]["matchLabels"]) == [SERVES[role]]
        out = {
            selected(found, rule["to"][0]["podSelector"]["matchLabels"])[0]: rule["ports"]
            for rule in policy["spec"]["egress"]
            if "to" in rule and "port" in rule["ports"][0]
        }
        ranks = [
            selected(found, rule["to"][0]["podSelector"]["matchLabels"])
            for rule in policy["spec"]["egress"]
            if "port" not in rule["ports"][0]
        ]
        assert all({role, *each} <= GROUP for each in ranks)
        dialled = {asked for asked, asks in SERVES.items() if asks == role}
        assert out.keys() == dialled & pods(found).keys()
        for asked, (port,) in out.items():
            there = container(pods(found)[asked])["ports"]
            assert port["port"] == there[0]["containerPort"]


def test_a_pod_has_time_to_drain(found: Found, tmp_path: Path) -> None:
    for role, pod in pods(found).items():
        process = child(found, role, tmp_path).config
        leave = (
            container(pod)
            .get("lifecycle", {})
            .get("preStop", {})
            .get("sleep", {})
            .get("seconds", 0)
        )
        assert pod["spec"]["terminationGracePeriodSeconds"] > leave + process.drain_seconds
        assert (role == "front") == bool(leave)


def test_pods_are_restricted(found: Found) -> None:
    specs = [pod["spec"] for pod in pods(found).values()]
    for cluster in of_kind(found, "RayCluster"):
        groups = [cluster["spec"]["headGroupSpec"], *cluster["spec"]["workerGroupSpecs"]]
        specs += [group["template"]["spec"] for group in groups]
    assert specs
    for spec in specs:
        assert spec["securityContext"]["runAsNonRoot"] is True
        assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        assert spec["automountServiceAccountToken"] is False
        for only in spec["containers"]:
            assert only["securityContext"] == {
                "allowPrivilegeEscalation": False,
                "readOnlyRootFilesystem": True,
                "capabilities": {"drop": ["ALL"]},
            }
            assert only["resources"]["limits"].get("nvidia.com/gpu") == only["resources"][
                "requests"
            ].get("nvidia.com/gpu")


def test_what_scales_is_there_and_its_number_is_nobody_elses(found: Found) -> None:
    scalers = tuple(of_kind(found, "ScaledObject", "HorizontalPodAutoscaler"))
    scaled = {each["spec"]["scaleTargetRef"]["name"] for each in scalers}
    for role, each in workloads(found).items():
        assert not scaled or role == "front" or each["metadata"]["name"] in scaled
        assert ("replicas" in each["spec"]) == (each["metadata"]["name"] not in scaled)
    assert scaled <= {each["metadata"]["name"] for each in workloads(found).values()}


def test_a_prefill_node_is_configured_as_the_verifiers_that_it_computes_for(tmp_path: Path) -> None:
    found = rendered(next(path for path in FILES if path.stem == "prefill-decode-split"))
    verifier, node = (child(found, role, tmp_path).config for role in ("verifier", "prefill"))
    own = {"node_id", "drafters", "prefill"}
    assert node.model_dump(exclude=own) == verifier.model_dump(exclude=own)


def test_nodes_of_ray_are_asked_by_us_and_their_processes_by_nobody(tmp_path: Path) -> None:
    found = rendered(next(path for path in FILES if path.stem == "ray"))
    file = tmp_path / "draftmesh.yaml"
    file.write_text(settings(found))
    config = load({}, file)
    ports = (config.verifier.health.port, config.drafter.health.port)
    assert ports == (None, None), "several of them may share an address"
    (cluster,) = of_kind(found, "RayCluster")
    head = container(cluster["spec"]["headGroupSpec"]["template"])
    (worker,) = (container(each["template"]) for each in cluster["spec"]["workerGroupSpecs"])
    for kind in ("startupProbe", "livenessProbe", "readinessProbe"):
        assert head[kind]["httpGet"] == {"path": "/api/gcs_healthz", "port": 8265}
        assert worker[kind]["httpGet"] == {"path": "/api/local_raylet_healthz", "port": 52365}
    there = {each["containerPort"] for each in head["ports"]}
    assert {8265, config.port, config.front.metrics_port} < there
    wait = {each["name"]: each.get("value") for each in head["env"]}["RAY_JOB_STOP_WAIT_TIME_S"]
    parts = (config.front, config.verifier, config.drafter)
    assert float(wait) > sum(part.drain_seconds for part in parts)


def test_ranks_apart_meet_at_their_leader(tmp_path: Path) -> None:
    found = rendered(next(path for path in FILES if path.stem == "verifier-over-two-nodes"))
    group = workloads(found)["verifier"]["spec"]["leaderWorkerTemplate"]
    leader: Any = child(found, "verifier", tmp_path).config
    follower: Any = child(found, "follower", tmp_path).config
    assert group["size"] == leader.tensor_parallel == follower.tensor_parallel == 2
    assert group["restartPolicy"] == "RecreateGroupOnPodRestart"
    port = leader.rendezvous.rpartition(":")[2]
    assert follower.rendezvous == f"{INJECTED['LWS_LEADER_ADDRESS']}:{port}"
    assert (leader.rank, follower.rank) == (0, int(INJECTED["LWS_WORKER_INDEX"]))
    own = {"node_id", "rank", "rendezvous", "drafters", "bind"}
    assert follower.model_dump(exclude=own) == leader.model_dump(exclude=own)
    assert leader.device == "cuda", "the one GPU that its pod sees"
    mesh = named(found, "Service", "dm-verifiers")["spec"]["selector"]
    assert selected(found, mesh) == ["verifier"], "followers are not on the mesh"


def test_a_group_is_rendered_only_where_ranks_are_apart() -> None:
    for path in FILES:
        groups = list(of_kind(rendered(path), "LeaderWorkerSet"))
        assert len(groups) == (path.stem == "verifier-over-two-nodes")
    (together,) = FILES[:1]
    sets = {"config.verifier.tensor_parallel": "2"}
    assert not list(of_kind(tuple(manifests(together, **sets)), "LeaderWorkerSet"))


def test_numbers_that_are_asked_for_are_counted(found: Found) -> None:
    shown = {each.shown for each in METRICS}
    shown |= {f"{each.shown}_{part}" for each in METRICS for part in ("bucket", "sum", "count")}
    asked = [
        trigger["metadata"]["query"]
        for each in of_kind(found, "ScaledObject")
        for trigger in each["spec"]["triggers"]
    ]
    asked += [
        each["data"]["draftmesh.json"]
        for each in of_kind(found, "ConfigMap")
        if "draftmesh.json" in each["data"]
    ]
    for query in asked:
        names = set(re.findall(r"(?:vllm:|draftmesh_)\w+", query))
        assert names
        assert names <= shown


def test_a_service_monitor_finds_the_page(found: Found) -> None:
    for monitor in of_kind(found, "ServiceMonitor"):
        wanted = monitor["spec"]["selector"]["matchLabels"]
        hits = [
            each
            for each in of_kind(found, "Service")
            if wanted.items() <= each["metadata"]["labels"].items()
        ]
        assert [each["metadata"]["name"] for each in hits] == ["dm-front"]
        (endpoint,) = monitor["spec"]["endpoints"]
        assert endpoint["port"] in {each["name"] for each in hits[0]["spec"]["ports"]}


def test_a_collector_takes_what_pods_send_and_passes_it_on(tmp_path: Path) -> None:
    found = rendered(next(path for path in FILES if path.stem.startswith("four-verifiers")))
    made = yaml.safe_load(named(found, "ConfigMap", "dm-collector")["data"]["collector.yaml"])
    for pipeline in made["service"]["pipelines"].values():
        for kind, names in pipeline.items():
            assert set(names) <= made[kind].keys()
    process: Any = child(found, "verifier", tmp_path).config
    port = process.otlp_traces_endpoint.rpartition(":")[2]
    assert made["receivers"]["otlp"]["protocols"]["grpc"]["endpoint"] == f"0.0.0.0:{port}"
    assert made["exporters"]["otlp"] == {
        "endpoint": "tempo.monitoring:4317",
        "tls": {"insecure": True},
    }


def test_pods_are_spread_and_those_that_verifiers_dial_stand_near_them(found: Found) -> None:
    for role, pod in pods(found).items():
        (spread,) = pod["spec"]["topologySpreadConstraints"]
        assert selected(found, spread["labelSelector"]["matchLabels"]) == [role]
    for pod in (each for role, each in pods(found).items() if role == "drafter"):
        near = pod["spec"]["affinity"]["podAffinity"]
        (term,) = near["preferredDuringSchedulingIgnoredDuringExecution"]
        labels = term["podAffinityTerm"]["labelSelector"]["matchLabels"]
        assert selected(found, labels) == ["verifier"]


def test_a_change_of_the_configuration_rolls_the_pods() -> None:
    def mark(**sets: str) -> set[str]:
        found = tuple(manifests(FILES[0], **sets))
        return {pod["metadata"]["annotations"]["draftmesh/config"] for pod in pods(found).values()}

    assert len(mark()) == 1
    assert mark() != mark(**{"config.draft_length": "3"})
