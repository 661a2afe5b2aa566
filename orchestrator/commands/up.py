"""`orchestrator up`: a service in the foreground."""

import json
import shlex
import signal
import time
from types import FrameType

from orchestrator.commands.detach import tell_served
from orchestrator.commands.output import complain, out, progress, say
from orchestrator.commands.service import launch, reachable, serving
from orchestrator.config import Config
from orchestrator.front.config import KEY_VARIABLE
from orchestrator.launch import Service
from orchestrator.launch.control import ControlServer
from orchestrator.launch.telling import sweep_logs
from protocol.rundir import cache_folder
from protocol.spans import KEPT


def up(config: Config, served_to: int | None = None) -> int:
    """Run a service until a signal ends it; the exit code. Who waits at the pipe `served_to` hears that it serves."""
    with progress(lines=True) as report:
        service = launch(config, report=report)
        stopping = stop_on_signals(service)
        control = ControlServer(service, service.name)
        serves = serving(service)
    if serves and not stopping:
        _box(service.url, config, detached=served_to is not None)
        tell_served(served_to)
    over = service.wait()
    control.close()
    assert over is not None
    if over.code:
        complain(over.text)
    else:
        say("  stopped")
    return over.code


def kept_here(config: Config) -> Config:
    """With its spans in a new folder of this machine, unless they go somewhere already; the oldest folders go."""
    if config.otlp_traces_endpoint:
        return config
    folder = cache_folder().absolute() / "traces" / str(time.time_ns())
    folder.mkdir(parents=True)
    sweep_logs(folder.parent)
    return config.model_copy(update={"otlp_traces_endpoint": f"{KEPT}{folder}"})


def stop_on_signals(service: Service) -> list[int]:
    """From now on the first signal drains, the second ends at once; the list holds those that came."""
    came: list[int] = []

    def asked(number: int, _frame: FrameType | None) -> None:
        came.append(number)
        service.stop()
        if len(came) == 1:
            say("\n  draining; once more ends at once")

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, asked)
    return came


def _watch(url: str, config: Config) -> str:
    page = f"{url}/dashboard, or " if config.front.dashboard else ""
    return f"{page}orchestrator status"


def _box(url: str, config: Config, *, detached: bool) -> None:
    """Rules above and below but no sides: what stands between them can be copied."""
    url = reachable(url)
    question = {"role": "user", "content": "Write a haiku about drafts."}
    body = json.dumps({"model": config.target, "messages": [question], "max_tokens": 64})
    key = f'-H "Authorization: Bearer ${KEY_VARIABLE}" ' if config.front.api_key else ""
    lines = {
        "endpoint": f"{url}/v1",
        "try": f"curl {url}/v1/chat/completions {key}-d {shlex.quote(body)}",
        "watch": _watch(url, config),
        "stop": "orchestrator down" if detached else "Ctrl-C (drains; twice ends at once)",
    }
    out.rule("draftmesh is up")
    for name, text in lines.items():
        out.print(f"  {name:<10} {text}", markup=False, soft_wrap=True)
    out.rule()
