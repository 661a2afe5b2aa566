"""`orchestrator up`: a service in the foreground."""

import json
import shlex
import signal
from types import FrameType

from orchestrator.commands.output import complain, out, say
from orchestrator.commands.service import launch, reachable, serving
from orchestrator.config import Config
from orchestrator.front.config import KEY_VARIABLE
from orchestrator.launch import Service


def up(config: Config) -> int:
    """Run a service until a signal ends it; the exit code."""
    service = launch(config)
    stopping = _stop_on_signals(service)
    if serving(service) and not stopping:
        _box(service.url, config)
    over = service.wait()
    assert over is not None
    if over.code:
        complain(over.text)
    else:
        say("  stopped")
    return over.code


def _stop_on_signals(service: Service) -> list[int]:
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


def _box(url: str, config: Config) -> None:
    """Rules above and below but no sides: what stands between them can be copied."""
    url = reachable(url)
    question = {"role": "user", "content": "Write a haiku about drafts."}
    body = json.dumps({"model": config.target, "messages": [question], "max_tokens": 64})
    key = f'-H "Authorization: Bearer ${KEY_VARIABLE}" ' if config.front.api_key else ""
    lines = {
        "endpoint": f"{url}/v1",
        "try": f"curl {url}/v1/chat/completions {key}-d {shlex.quote(body)}",
        "stop": "Ctrl-C (drains; twice ends at once)",
    }
    out.rule("draftmesh is up")
    for name, text in lines.items():
        out.print(f"  {name:<10} {text}", markup=False, soft_wrap=True)
    out.rule()
