"""From a configuration to a running service, with a line for each stage."""

import http.client
import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from drafter.config import DrafterConfig
from orchestrator.commands.output import progress, stage
from orchestrator.config import Config, near
from orchestrator.launch import LAUNCHERS, Service, Watch, wanted
from orchestrator.launch.events import Changed
from orchestrator.launch.plan import Child, apart, children, drafter, spare
from orchestrator.launch.threads import LIGHT, usable_cores
from orchestrator.models import Report, resolve, silent
from orchestrator.settings import ConfigError
from verifier.config import FeaturesConfig

GLANCE: Final = 0.02  # seconds between two looks at whether the front door has found its verifiers
LINKED: Final = 10.0  # seconds after which it should have

NEWS: Final[Mapping[str, str]] = {"ready": "ready", "waiting": "died"}
"""States that a user wants to read of while a service starts or runs, and how they are called."""


def launch(
    config: Config,
    *,
    arrange: Callable[[Config, Path, Path | None, int], list[Child]] = children,
    news: Callable[[str, str, float], None] = stage,
    report: Report = silent,
) -> Service:
    """Fetch what is needed and start the processes; see `serving` for when they serve.

    `arrange` says which processes, `news` hears a name, what became of it and when that was begun; `report` how far a
    process is with something that takes long, from another thread.
    """
    begun = time.monotonic()
    config, target, draft = fetched(config, news)
    launcher = wanted(config, os.environ)
    if launcher not in LAUNCHERS:
        raise ConfigError(f"There is no launcher {launcher!r}{near(launcher, LAUNCHERS)}")

    if launcher != "local":
        config = apart(config)
    cores = usable_cores()
    processes = arrange(config, target, draft, cores)
    watch = watching(lambda name, text: news(name, text, begun), report)
    return LAUNCHERS[launcher](processes, watch, config, spare(config, target, draft, cores))


def watching(news: Callable[[str, str], None], report: Report) -> Watch:
    """What tells a user what becomes of processes, and how far they are."""

    def watch(change: Changed) -> None:
        if (far := change.progress) is not None:
            report(f"{change.name}: {far.what}", far.done, far.total)
        if word := NEWS.get(change.state):
            news(change.name, f"{word}: {change.text}" if change.text else word)

    return watch


def fetched(
    config: Config, news: Callable[[str, str, float], None] = stage
) -> tuple[Config, Path, Path | None]:
    """What has to be here before a process starts: the configuration as the draft model wants it, and both folders."""
    target = _model(config, config.target, "model", news)
    draft, features = _drafts(config, target, news)
    kept = config.verifier.model_copy(update={"features": features})
    return config.model_copy(update={"verifier": kept}), target, draft


def _drafts(
    config: Config, target: Path, news: Callable[[str, str, float], None]
) -> tuple[Path | None, FeaturesConfig]:
    """The draft model's folder, and what verifiers keep for it if it is a head that reads hidden states."""
    from drafter.checkpoints.head import reads_hidden  # noqa: PLC0415  # it reads models
    from orchestrator.heads import captured  # noqa: PLC0415

    nothing = config.verifier.features
    if not config.drafters or config.method in LIGHT:
        return None, nothing
    if not reads_hidden(config.drafter.model_copy(update={"method": config.method}).methods):
        return _model(
            config, config.draft, "draft model", news
        ) if config.draft else target, nothing
    folder = _head(config)
    one = drafter(config, 0, target, folder).config
    assert isinstance(one, DrafterConfig)
    try:
        return folder, captured(one).model_copy(update={"recent": nothing.recent})
    except ValueError as error:
        raise ConfigError(f"The draft head cannot be used: {error}") from error


def _head(config: Config) -> Path:
    """The head that was asked for; else the one that comes with draftmesh."""
    from drafter.checkpoints.bundled import bundled, targets  # noqa: PLC0415

    if config.draft:
        return Path(config.draft).expanduser().absolute()
    whole = config.drafter.model_copy(update={"method": config.method})
    for method in whole.methods:
        if (found := bundled(config.target, method)) is not None:
            return found
    known = ", ".join(targets()) or "no model yet"
    raise ConfigError(
        f"Method {config.method} needs a draft head: --draft FOLDER (draftmesh has some for {known})"
    )


def serving(service: Service) -> bool:
    """Block until a request would be answered; False when the service ends before."""
    if not service.wait_up():
        return False
    deadline = time.monotonic() + LINKED
    while not _ready(service.url) and time.monotonic() < deadline:
        if service.wait(GLANCE) is not None:
            return False
    return True


def reachable(url: str) -> str:
    """The address that a client on this machine uses for a service that listens everywhere."""
    return url.replace("//0.0.0.0:", "//127.0.0.1:").replace("//[::]:", "//[::1]:")


def _ready(url: str) -> bool:
    place = urlsplit(reachable(url))
    connection = http.client.HTTPConnection(place.hostname or "", place.port, timeout=LINKED)
    try:
        connection.request("GET", "/ready")
        return connection.getresponse().status == http.client.OK
    except OSError:
        return False
    finally:
        connection.close()


def _model(config: Config, name: str, what: str, news: Callable[[str, str, float], None]) -> Path:
    begun = time.monotonic()
    with progress() as report:
        folder = resolve(name, report, trust_remote_code=config.trust_remote_code)
    news(what, name, begun)
    return folder
