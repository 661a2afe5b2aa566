"""`orchestrator run`: one process of a service; who keeps it running, and who its peers are, is decided elsewhere."""

import os

from orchestrator.commands.service import fetched
from orchestrator.config import Config, near
from orchestrator.launch.plan import DIALS, MODULES, Place, alone
from orchestrator.launch.threads import usable_cores
from orchestrator.python import command, environment
from orchestrator.settings import ConfigError


def run(role: str, place: Place, config: Config) -> int:
    """Fetch what the role needs and become it: same process, so signals and exit code are the role's own."""
    check(role, place)
    config, target, draft = fetched(config)
    child = alone(config, role, place, (target, draft), usable_cores())
    arguments = command(child.module, "--config", child.config.model_dump_json())
    os.execve(arguments[0], arguments, environment(child.environment))  # noqa: S606


def check(role: str, place: Place) -> None:
    """A ConfigError for what cannot be meant."""
    if role not in MODULES:
        raise ConfigError(f"There is no role {role!r}{near(role, MODULES)}")
    if (place.rendezvous or place.rank) and role not in {"verifier", "follower"}:
        raise ConfigError(f"--rendezvous, --rank: a {role} has no ranks")
    if role == "follower" and not (place.rendezvous and place.rank):
        raise ConfigError(
            "A follower needs --rendezvous HOST:PORT, where its verifier is, and its --rank from 1 on"
        )
    if role == "verifier" and place.rank:
        raise ConfigError("--rank: a verifier is rank 0; other ranks are followers")
    if role == "follower" and (place.bind or place.dials):
        raise ConfigError("--bind, --dial: a follower is not on the mesh")
    if place.dials and role not in DIALS:
        raise ConfigError(f"--dial: a {role} dials nobody, it is dialled")
    if place.bind and role == "front":
        raise ConfigError(
            "--bind: a front door is not dialled over the mesh; `host` and `port` say where it listens"
        )
