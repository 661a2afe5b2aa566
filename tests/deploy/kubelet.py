"""What a node of a cluster does with rendered pods, with processes for containers.

Arguments, environment, probes, endings and headless names are the manifests' own. Containers' file systems are not
made: paths of volumes become folders of the pod.
"""

import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

import grpc
import httpx
import psutil
from grpc_health.v1.health_pb2 import HealthCheckRequest, HealthCheckResponse
from grpc_health.v1.health_pb2_grpc import HealthStub

from tests.deploy.chart import ROOT, Manifest, container, named, of_kind, pods, settings, workloads
from tests.deploy.nameserver import NameServer
from tests.deploy.namespaces import HERE, Network, command
from tests.e2e.service import until

ZONE: Final = "prod.svc.cluster.local"
RESOLVER: Final = (
    f"nameserver {HERE}\nsearch {ZONE} svc.cluster.local cluster.local\noptions ndots:5\n"
)
STEP: Final = 0.1
pause: Final[Callable[[float], bool]] = threading.Event().wait


class Pod:
    """One pod that runs, until `end`."""

    def __init__(self, cluster: "Cluster", role: str, name: str) -> None:
        self.role, self.name = role, name
        self.manifest = pods(cluster.found)[role]
        self.only = container(self.manifest)
        self.ending = False
        self._stack = ExitStack()
        self._cluster = cluster
        namespace, self.address = self._stack.enter_context(cluster.network.host())
        self.folder = cluster.folder / f"{name}-{self.address}"
        self.folder.mkdir()
        self._mounted = self._mount()
        resolver = self.folder / "resolv.conf"
        resolver.write_text(RESOLVER)
        arguments = [self._here(self._known(each)) for each in self.only["args"]]
        program = [sys.executable, "-P", "-m", "orchestrator", *arguments]
        self.log = self.folder / "log"
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                command(namespace, resolver, program),
                env=self._environment(),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    @property
    def ready(self) -> bool:
        return not self.ending and self.passes("readinessProbe")

    def passes(self, kind: str) -> bool:
        """Whether a probe of this kind succeeds now."""
        probe = self.only[kind]
        ports = {each["name"]: each["containerPort"] for each in self.only["ports"]}
        try:
            if get := probe.get("httpGet"):
                url = f"http://{self.address}:{ports[get['port']]}{get['path']}"
                return httpx.get(url, timeout=5).is_success
            with grpc.insecure_channel(f"{self.address}:{probe['grpc']['port']}") as channel:
                wanted = HealthCheckRequest(service=probe["grpc"].get("service", ""))
                said = HealthStub(channel).Check(wanted, timeout=5).status
                return bool(said == HealthCheckResponse.SERVING)
        except (grpc.RpcError, httpx.HTTPError):
            return False

    def wait_ready(self) -> None:
        until(lambda: self.ready or self.process.poll() is not None, f"{self.name} is ready")
        assert self.process.poll() is None, self.log.read_text()
        self._cluster.publish()

    def end(self) -> int:
        """As Kubernetes ends a pod: the hook, SIGTERM, its time, SIGKILL. The exit code."""
        self.ending = True
        self._cluster.publish()
        grace = float(self.manifest["spec"]["terminationGracePeriodSeconds"])
        hook = self.only.get("lifecycle", {}).get("preStop", {}).get("sleep", {}).get("seconds", 0)
        pause(hook)
        self._signal(signal.SIGTERM)
        try:
            code = self.process.wait(grace - hook)
        except subprocess.TimeoutExpired:
            code = -signal.SIGKILL
        self.kill()
        return code

    def _signal(self, number: int) -> None:
        for program in psutil.Process(self.process.pid).children():
            program.send_signal(number)

    def kill(self) -> None:
        """It is gone, with its address."""
        self.ending = True
        self.process.kill()
        self.process.wait()
        self._cluster.forget(self)
        self._stack.close()

    def _mount(self) -> dict[str, Path]:
        """Folders for what is mounted, by the path that the container knows."""
        volumes = {each["name"]: each for each in self.manifest["spec"]["volumes"]}
        places = {}
        for mount in self.only["volumeMounts"]:
            volume, path = volumes[mount["name"]], mount["mountPath"]
            if "configMap" not in volume and "secret" not in volume and path != "/cache":
                continue  # /tmp and /dev/shm are this machine's
            places[path] = self.folder / path.lstrip("/")
        for path, place in places.items():
            place.parent.mkdir(parents=True, exist_ok=True)
            if path == "/cache":
                place.mkdir()
            elif "configMap" in volumes["config"] and path.endswith(".yaml"):
                place.write_text(self._cluster.settings(self.folder))
            else:
                place.mkdir()
                for name, text in self._cluster.secret(
                    volumes["keys"]["secret"]["secretName"]
                ).items():
                    (place / name).write_text(text)
                    (place / name).chmod(0o400)
        return places

    def _here(self, text: str) -> str:
        for path, place in self._mounted.items():
            if text == path:
                return str(place)
        return text

    def _known(self, text: str) -> str:
        values = self._environment()
        return re.sub(r"\$\((\w+)\)", lambda found: values[found[1]], text)

    def _environment(self) -> dict[str, str]:
        """What the manifest says, and what this machine needs to find our packages at all."""
        values = {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
        fields = {"metadata.name": self.name, "metadata.namespace": "prod", "spec.nodeName": "here"}
        for each in self.only["env"]:
            source = each.get("valueFrom", {})
            if "fieldRef" in source:
                value = fields[source["fieldRef"]["fieldPath"]]
            elif "secretKeyRef" in source:
                wanted = source["secretKeyRef"]
                value = self._cluster.secret(wanted["name"])[wanted["key"]]
            else:
                known = dict(values)
                value = re.sub(r"\$\((\w+)\)", lambda hit, k=known: k[hit[1]], each["value"])  # type: ignore[misc]
            values[each["name"]] = self._here(value)
        return values


class Cluster:
    """Pods of one release, and the names behind which they are found."""

    def __init__(
        self, found: tuple[Manifest, ...], folder: Path, secrets: dict[str, dict[str, str]]
    ) -> None:
        self.found, self.folder = found, folder
        self.pods: list[Pod] = []
        self._secrets = secrets
        self._changing = threading.Lock()
        self._numbers = 0
        self.network = Network()
        self.names = NameServer(HERE)

    def close(self) -> None:
        for pod in list(self.pods):
            pod.kill()
        self.names.close()
        self.network.close()

    def settings(self, folder: Path) -> str:
        """The configuration, with paths of volumes as they are for a pod."""
        return settings(self.found).replace("/etc/draftmesh/keys", f"{folder}/etc/draftmesh/keys")

    def secret(self, name: str) -> dict[str, str]:
        return self._secrets[name]

    def start(self, role: str, name: str = "") -> Pod:
        """Start a pod and name it; it is found at once, if its Service wants that."""
        self._numbers += 1
        workload = workloads(self.found)[role]["metadata"]["name"]
        pod = Pod(self, role, name or f"{workload}-{self._numbers}")
        self.pods.append(pod)
        self.publish()
        return pod

    def forget(self, pod: Pod) -> None:
        self.pods.remove(pod)
        self.publish()

    def publish(self) -> None:
        """Write the records of headless names anew."""
        with self._changing:
            for service in of_kind(self.found, "Service"):
                spec: dict[str, Any] = service["spec"]
                if spec.get("clusterIP") != "None":
                    continue
                hit = [
                    pod.address
                    for pod in self.pods
                    if spec["selector"].items() <= pod.manifest["metadata"]["labels"].items()
                    and (spec.get("publishNotReadyAddresses") or pod.ready)
                ]
                self.names.records[f"{service['metadata']['name']}.{ZONE}"] = tuple(hit)

    def of(self, role: str) -> list[Pod]:
        return [pod for pod in self.pods if pod.role == role]

    def roll(self, role: str) -> list[int]:
        """As a StatefulSet does: the last first, one at a time, each with its old name. Their exit codes."""
        assert workloads(self.found)[role]["kind"] == "StatefulSet"
        codes = []
        for pod in sorted(self.of(role), key=lambda pod: pod.name, reverse=True):
            codes.append(pod.end())
            self.start(role, pod.name).wait_ready()
        return codes

    def roll_verifiers(self) -> list[int]:
        """As a Deployment does that may have one more and none less. Their exit codes."""
        spec = workloads(self.found)["verifier"]["spec"]
        rolling = spec["strategy"]["rollingUpdate"]
        assert (rolling["maxSurge"], rolling["maxUnavailable"]) == (1, 0)
        codes = []
        for old in self.of("verifier"):
            self.start("verifier").wait_ready()
            pause(spec.get("minReadySeconds", 0))
            codes.append(old.end())
        return codes

    def url(self) -> str:
        """Where the front door's Service leads: to a pod that is ready."""
        assert named(self.found, "Service", "dm-front")
        pod = next(pod for pod in self.of("front") if not pod.ending)
        return f"http://{pod.address}:8000"
