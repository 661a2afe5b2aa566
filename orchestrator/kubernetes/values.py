"""Every value of the Helm chart. `deploy/helm/draftmesh/values.schema.json` is made from these models."""

from collections.abc import Mapping
from typing import Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue

from orchestrator.config import OWNED, Config

DECIDED: Final = ("host", "port", "launcher", "mesh")
"""Keys of the configuration that the chart decides: where to listen, and who gets in."""
DECIDED_OF_PARTS: Final[Mapping[str, tuple[str, ...]]] = {
    "front": ("metrics_port", "api_key"),
    "verifier": ("health",),
    "drafter": ("health",),
}

Plain = dict[str, JsonValue]
"""Handed to Kubernetes as it is, and judged there."""


class _Values(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Image(_Values):
    repository: str = "draftmesh"
    tag: str = Field("", description="empty: the chart's appVersion")
    digest: str = Field("", pattern="^(sha256:[0-9a-f]{64})?$", description="wins over the tag")
    pullPolicy: Literal["Always", "IfNotPresent", "Never"] = "IfNotPresent"  # noqa: N815
    pullSecrets: tuple[str, ...] = ()  # noqa: N815


class Mesh(_Values):
    """Who may speak on the mesh: exactly one of the two."""

    keysSecret: str = Field(  # noqa: N815
        "", description="Secret that `orchestrator keys secret` prints"
    )
    insecure: bool = Field(False, description="let anybody in whom the NetworkPolicy lets through")
    port: int = Field(7400, ge=1024, le=65535)
    host: str = Field("0.0.0.0", description="address to listen at; [::] on IPv6")  # noqa: S104  # nosec B104


class ApiKey(_Values):
    secret: str = Field("", description="Secret with what clients must bring; empty: nothing")
    key: str = "api-key"


class Cache(_Values):
    """Where models lie in every pod."""

    claim: str = Field("", description="PersistentVolumeClaim that pods share; empty: one a pod")
    size: str = Field("20Gi", description="limit of the volume that a pod has without a claim")


class Volume(_Values):
    name: str
    mountPath: str  # noqa: N815
    source: Plain = Field(description="as in `volumes` of a pod, without the name")


class Pods(_Values):
    """What pods of one role need from the cluster."""

    resources: Plain = {}
    shmSize: str = Field("64Mi", description="memory of /dev/shm")  # noqa: N815
    nodeSelector: dict[str, str] = {}  # noqa: N815
    tolerations: tuple[Plain, ...] = ()
    runtimeClassName: str = ""  # noqa: N815
    priorityClassName: str = ""  # noqa: N815
    annotations: dict[str, str] = {}
    environment: dict[str, str] = Field({}, description="variables; of ours only DRAFTMESH_ ones")
    volumes: tuple[Volume, ...] = ()
    spread: str = Field(
        "kubernetes.io/hostname", description="topology over which pods are spread; empty: none"
    )
    near: str = Field("", description="topology in which pods stand near verifiers; empty: any")
    loadSeconds: int = Field(  # noqa: N815
        1200, ge=10, description="longest time that fetching and loading a model may take"
    )


class Surge(_Values):
    maxSurge: int | str = 1  # noqa: N815
    maxUnavailable: int | str = 0  # noqa: N815


class FrontPods(Pods):
    replicas: int = Field(1, ge=1)
    leave: int = Field(
        5, ge=0, description="seconds in which load balancers forget a pod that is to end"
    )
    type: Literal["ClusterIP", "NodePort", "LoadBalancer"] = "ClusterIP"
    port: int = Field(8000, ge=1, le=65535, description="of the Service")


class VerifierPods(Pods):
    """Of each rank, where ranks are apart (`config.verifier.ranks`): a LeaderWorkerSet keeps them then."""

    strategy: Surge = Surge()
    rendezvousPort: int = Field(  # noqa: N815
        7500, ge=1024, le=65535, description="where ranks that are apart find the verifier"
    )


class DrafterPods(Pods):
    near: str = "topology.kubernetes.io/zone"


class PrefillPods(Pods):
    near: str = "topology.kubernetes.io/zone"


class Range(_Values):
    min: int = Field(1, ge=0)
    max: int = Field(4, ge=1)


class ScaledVerifiers(Range):
    waiting: float = Field(5, gt=0, description="choices that wait, for each verifier")


class ScaledDrafters(Range):
    max: int = Field(8, ge=1)
    stale: float = Field(
        50, gt=0, description="rounds a second without a usable tail, for each drafter"
    )


class ScaledPrefill(Range):
    queued: int = Field(8192, gt=0, description="prompt tokens that wait, for each prefill node")


class Autoscaling(_Values):
    kind: Literal["none", "hpa", "keda"] = Field(
        "none", description="hpa: external metrics of an adapter; keda: asks Prometheus itself"
    )
    prometheus: str = Field("", description="URL that KEDA asks")
    pollingInterval: int = Field(15, ge=1)  # noqa: N815
    cooldownPeriod: int = Field(360, ge=0)  # noqa: N815
    verifiers: ScaledVerifiers = ScaledVerifiers()
    drafters: ScaledDrafters = ScaledDrafters()
    prefill: ScaledPrefill = ScaledPrefill()


class NetworkPolicy(_Values):
    enabled: bool = True
    clients: tuple[Plain, ...] = Field((), description="peers that may ask; empty: any")
    monitoring: tuple[Plain, ...] = Field((), description="peers that may scrape; empty: any")
    download: bool = Field(True, description="whether pods may fetch models by HTTPS")


class ServiceMonitor(_Values):
    enabled: bool = False
    interval: str = "15s"
    labels: dict[str, str] = {}


class Collector(_Values):
    """An OpenTelemetry collector's configuration, as a ConfigMap for whoever runs one."""

    enabled: bool = False
    endpoint: str = Field("", description="host:port of the OTLP store behind it")
    insecure: bool = Field(False, description="without TLS")


class RayCluster(_Values):
    """A KubeRay cluster instead of pods for each role: `orchestrator up --launcher ray` runs in its head."""

    enabled: bool = False
    rayVersion: str = "2.60.0"  # noqa: N815
    workers: int = Field(2, ge=1)
    resources: Plain = {}


class InferencePool(_Values):
    enabled: bool = False
    picker: str = Field("", description="Service of the endpoint picker")


class Values(_Values):
    """All of them."""

    nameOverride: str = ""  # noqa: N815
    image: Image = Image()
    config: Config = Field(
        Config(),
        description="as in draftmesh.yaml; `verifiers`, `drafters` and `prefill` are replicas",
    )
    mesh: Mesh = Mesh()
    apiKey: ApiKey = ApiKey()  # noqa: N815
    modelCache: Cache = Cache()  # noqa: N815
    serviceAccount: str = Field("", description="empty: one of the release's own")  # noqa: N815
    front: FrontPods = FrontPods()
    verifier: VerifierPods = VerifierPods()
    drafter: DrafterPods = DrafterPods()
    prefill: PrefillPods = PrefillPods()
    autoscaling: Autoscaling = Autoscaling()
    networkPolicy: NetworkPolicy = NetworkPolicy()  # noqa: N815
    serviceMonitor: ServiceMonitor = ServiceMonitor()  # noqa: N815
    dashboards: bool = Field(False, description="a ConfigMap with a dashboard for Grafana")
    alerts: bool = Field(False, description="a PrometheusRule with alerts")
    collector: Collector = Collector()
    inferencePool: InferencePool = InferencePool()  # noqa: N815
    rayCluster: RayCluster = RayCluster()  # noqa: N815


def schema() -> dict[str, Any]:
    """JSON Schema of the values: what a user may set, and no key that the chart or the launcher decides."""
    made = Values.model_json_schema()
    kinds = made["$defs"]
    config = kinds["Config"]
    for key in DECIDED:
        del config["properties"][key]
    for part, paths in OWNED.items():
        for path in (*paths, *DECIDED_OF_PARTS.get(part, ())):
            _drop(kinds, _named(config["properties"][part]), path.split("."))
    _strip(made)
    made["properties"]["global"] = {"type": "object"}  # Helm adds it
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **made}


def _drop(kinds: dict[str, Any], name: str, path: list[str]) -> None:
    kind = kinds[name]
    if len(path) > 1:
        _drop(kinds, _named(kind["properties"][path[0]]), path[1:])
        return
    kind["properties"].pop(path[0], None)
    kind["required"] = [key for key in kind.get("required", []) if key != path[0]]


def _named(reference: Mapping[str, Any]) -> str:
    return str(reference["$ref"]).rpartition("/")[2]


def _strip(part: Any) -> None:  # noqa: ANN401
    """Titles and defaults say nothing here: the chart's own defaults are in values.yaml."""
    if isinstance(part, dict):
        for key in ("title", "default", "format", "writeOnly"):
            part.pop(key, None)
        if not part.get("required", True):
            del part["required"]
        for key, value in part.items():
            if key in {"properties", "$defs"}:
                for inner in value.values():
                    _strip(inner)
            else:
                _strip(value)
    elif isinstance(part, list):
        for inner in part:
            _strip(inner)


def values_of(config: Mapping[str, Any]) -> dict[str, Any]:
    """Values that make the same service, from a configuration as it is shown: only what is not default."""
    kept = {key: value for key, value in config.items() if key not in DECIDED}
    for part, keys in DECIDED_OF_PARTS.items():
        section = kept.get(part)
        if isinstance(section, dict):
            kept[part] = {key: value for key, value in section.items() if key not in keys}
    return {"config": _differing(kept, Config().shown())}


def _differing(value: Mapping[str, Any], default: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, each in value.items():
        other = default.get(key)
        if isinstance(each, Mapping) and isinstance(other, Mapping):
            if inner := _differing(each, other):
                found[key] = inner
        elif each != other:
            found[key] = each
    return found
