"""From the configuration of a service to the processes it consists of. Pure."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from drafter.config import DrafterConfig
from drafter.draws import manner
from orchestrator.config import Config
from orchestrator.front.config import KEY_VARIABLE, FrontConfig
from orchestrator.launch.threads import LIGHT, Share, in_turn, shares
from orchestrator.roles import HELPERS
from protocol import logs
from protocol.config import HealthConfig
from verifier.config import DraftsConfig, VerifierConfig

MODULES: Final[Mapping[str, str]] = {
    "front": "orchestrator.front",
    "verifier": "verifier",
    "prefill": "verifier.prefill",
    "drafter": "drafter",
    "follower": "verifier.follower",
}
"""Roles in the order in which they are stopped: who asks goes before who answers."""

DIALS: Final[Mapping[str, tuple[str, ...]]] = {
    "front": ("verifier",),
    "verifier": ("drafter", "prefill"),
}
"""Whom a role dials. Whoever answers says its role, so one list of addresses is enough."""


@dataclass(frozen=True)
class Child:
    """One process to be run: `python -m MODULE --config JSON --supervised`."""

    config: FrontConfig | VerifierConfig | DrafterConfig
    role: str
    environment: Mapping[str, str] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return self.config.node_id

    @property
    def module(self) -> str:
        return MODULES[self.role]

    @property
    def essential(self) -> bool:
        """Whether the service cannot begin without it."""
        return self.role not in HELPERS


ALONE: Final = Share()

Spare = Callable[[int], Child | None]
"""Makes one more drafter, by its number; None where there can be none."""


def no_spare(_number: int) -> None:
    """There can be none."""


def children(config: Config, target: Path, draft: Path | None, cores: int) -> list[Child]:
    """The processes of a service, in the order in which they are stopped."""
    asked, config = config, settled(config, cores)
    dealt = _dealt(config, cores)
    front = config.front.model_copy(
        update={
            "host": config.host,
            "port": config.port,
            "model": target,
            "name": config.target,
            "link": config.link,
            "mesh": config.mesh,
            "otlp_traces_endpoint": config.otlp_traces_endpoint,
            "service": asked.shown(),
        }
    )
    secrets = {KEY_VARIABLE: config.front.api_key.get_secret_value()}
    return [
        Child(front, "front", _environment(config, dealt["front"], secrets)),
        *(
            _verifier(config, "verifier", number, target, dealt["verifier"])
            for number in range(config.verifiers)
        ),
        *(
            _verifier(config, "prefill", number, target, dealt["prefill"])
            for number in range(config.prefill)
        ),
        *(
            drafter(config, number, target, draft, dealt["drafter"])
            for number in range(config.drafters)
        ),
    ]


def spare(config: Config, target: Path, draft: Path | None, cores: int) -> Spare:
    """More drafters for a service that runs; each has the threads that the first ones have."""
    config = settled(config, cores)
    share = _dealt(config, cores)["drafter"]
    return lambda number: drafter(config, number, target, draft, share)


def apart(config: Config) -> Config:
    """Every process has cores of its own: nobody waits for anybody's, unless the user says so."""
    return config.model_copy(update={"overlap": config.overlap is not False})


def settled(config: Config, cores: int) -> Config:
    """Whether drafters run ahead is known for these cores, if the user did not say."""
    if config.overlap is not None:
        return config
    targets = config.verifiers * config.verifier.tensor_parallel
    turns = in_turn(cores, targets, config.drafters, config.method, prefill=config.prefill)
    return config.model_copy(update={"overlap": bool(config.seats()) or not turns})


def _dealt(config: Config, cores: int) -> Mapping[str, Share]:
    wanted = _wanted_threads(config)
    return shares(
        cores,
        config.verifiers * config.verifier.tensor_parallel,
        config.drafters,
        config.method,
        wanted=wanted,
        prefill=config.prefill,
        turns=not config.overlap,
    )


@dataclass(frozen=True)
class Place:
    """Where one process stands that has a machine or a container for itself; its peers are started by others."""

    name: str
    bind: str = ""
    """Its mesh address; empty: as the role has it."""
    dials: tuple[str, ...] = ()
    rendezvous: str = ""
    """HOST:PORT where the ranks of a verifier meet that are on machines of their own."""
    rank: int = 0


def alone(
    config: Config, role: str, place: Place, models: tuple[Path, Path | None], cores: int
) -> Child:
    """The one process of a role that has all the cores here; `models` are the folders of target and draft model."""
    target, draft = models
    counts = {
        "verifiers": 1,
        "prefill": int(role == "prefill"),
        "drafters": int(role == "drafter"),
    }
    asked, config = config, apart(config)
    whole = config if role == "front" else config.model_copy(update=counts)
    if role == "follower":
        return _follower(whole, place, target, cores)
    child = next(each for each in children(whole, target, draft, cores) if each.role == role)
    share = _whole_share(config, role, cores)
    if role == "drafter" and config.method not in LIGHT:
        child = drafter(whole, 0, target, draft, share)
    changed: dict[str, object] = {"node_id": place.name}
    if role == "front":
        changed["service"] = asked.shown()
    if role == "prefill":
        child = _verifier(whole, role, 0, target, share)
        changed["health"] = config.verifier.health  # no verifier is beside it
    if role == "verifier":
        child = _verifier(whole, role, 0, target, share)
        changed["rendezvous"] = place.rendezvous
    if place.bind and "bind" in type(child.config).model_fields:
        changed["bind"] = place.bind
    if role in DIALS:
        changed[f"{DIALS[role][0]}s"] = place.dials
    return replace(child, config=child.config.model_copy(update=changed))


def _whole_share(config: Config, role: str, cores: int) -> Share:
    """All cores for one process, or for all ranks of it that are here."""
    wanted = _wanted_threads(config).get(role)
    ranks = config.verifier.tensor_parallel if config.verifier.ranks == "together" else 1
    here = ranks if role == "verifier" else 1
    return shares(cores, here, 0, config.method, {"verifier": wanted} if wanted else None)[
        "verifier"
    ]


def _follower(config: Config, place: Place, target: Path, cores: int) -> Child:
    """A rank of a verifier, on a machine of its own; it is asked for its health like the others."""
    child = _verifier(config, "verifier", 0, target, _whole_share(config, "verifier", cores))
    changed = {"node_id": place.name, "rank": place.rank, "rendezvous": place.rendezvous}
    return replace(child, role="follower", config=child.config.model_copy(update=changed))


def _verifier(config: Config, role: str, number: int, target: Path, share: Share) -> Child:
    """A verifier of a service, or a prefill node: they have the same model and settings."""
    planner = config.verifier.planner.model_copy(
        update={"draft_length": config.window, "overlap": config.overlap}
    )
    part = config.verifier.model_copy(
        update={
            "node_id": f"{role}-{number}",
            "health": _beside(
                config.verifier.health, number + (config.verifiers if role == "prefill" else 0)
            ),
            "model": target,
            "trust_remote_code": config.trust_remote_code,
            "dtype": config.dtype,
            "threads": share.threads,
            "planner": planner,
            "drafts": _drafts(config),
            "link": config.link,
            "mesh": config.mesh,
            "otlp_traces_endpoint": config.otlp_traces_endpoint,
        }
    )
    return _seated(Child(part, role, _environment(config, share)), config, number)


def _seated(child: Child, config: Config, number: int) -> Child:
    """On its GPU, if it has one. A drafter that is started later shares like those before it."""
    seats = config.seats()
    known = [seat for (role, _), seat in seats.items() if role == child.role]
    if not known:
        return child
    seat = seats.get((child.role, number), known[number % len(known)])
    part = child.config.model_copy(update=dict(seat.settings))
    return replace(child, config=part, environment={**child.environment, **seat.environment})


def _drafts(config: Config) -> DraftsConfig:
    """What verifiers may take for granted; of guesses that are certain there is nothing to know."""
    known = manner(config.drafter.model_copy(update={"method": config.method}))
    return (
        DraftsConfig() if known.draws == "certain" else DraftsConfig.model_validate(known._asdict())
    )


def drafter(
    config: Config, number: int, target: Path, draft: Path | None, share: Share = ALONE
) -> Child:
    """One drafter of a service."""
    own = config.drafter.model_fields_set
    part = config.drafter.model_copy(
        update={
            "node_id": f"drafter-{number}",
            "health": _beside(config.drafter.health, number),
            "method": config.method,
            "model": draft,
            "target": target,
            "trust_remote_code": config.trust_remote_code,
            "overlap": config.overlap,
            "dtype": config.drafter.dtype if "dtype" in own else config.dtype,
            "threads": share.threads,
            "link": config.link,
            "mesh": config.mesh,
            "otlp_traces_endpoint": config.otlp_traces_endpoint,
        }
    )
    return _seated(Child(part, "drafter", _environment(config, share)), config, number)


def _environment(
    config: Config, share: Share, secrets: Mapping[str, str] | None = None
) -> Mapping[str, str]:
    """What a process finds out from no file and no argument."""
    return {**share.environment, logs.VARIABLE: config.log_format, **(secrets or {})}


def _beside(health: HealthConfig, number: int) -> HealthConfig:
    """Processes of a role that share a machine are asked at ports that follow each other."""
    return health.model_copy(update={"port": health.port + number}) if health.port else health


def _wanted_threads(config: Config) -> Mapping[str, int]:
    parts: Mapping[str, VerifierConfig | DrafterConfig] = {
        "verifier": config.verifier,
        "prefill": config.verifier,
        "drafter": config.drafter,
    }
    return {
        role: part.threads for role, part in parts.items() if "threads" in part.model_fields_set
    }
