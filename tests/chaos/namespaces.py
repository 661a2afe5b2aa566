"""Two hosts on one machine: a verifier and a front door in one network namespace, a drafter in another, a veth between.

`unshare -rn python -m tests.chaos.namespaces` (no root needed where the kernel lets users have namespaces). The wire
goes down and up again; then the verifier dials through a relay that delays, jitters, narrows, loses and hangs up:
`tc netem` would do the same where the kernel has it. Answers go on all the while, and so do drafts after it.
"""

import json
import signal
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Final

import httpx

from orchestrator.bench.relay import Relay
from tests.chaos.links import BOUND, Asker, faults
from tests.models import write_byte_llama

HERE, THERE, PORT = "10.117.0.1", "10.117.0.2", 7400
START: Final = 180.0
DOWN: Final = 12
"""Requests while the wire is down."""


def possible() -> str:
    """Why this cannot be tried here; empty where it can."""
    probe = "ip link add a0 type veth peer name b0 && unshare -n true"
    try:
        tried = subprocess.run(
            ["unshare", "-rn", "sh", "-c", probe],
            capture_output=True,
            text=True,
            timeout=20,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"no unshare: {error}"
    return "" if tried.returncode == 0 else f"no namespaces with veth here: {tried.stderr.strip()}"


def _ip(*arguments: str, inside: int = 0) -> None:
    enter = ["nsenter", "-t", str(inside), "-n"] if inside else []
    subprocess.run([*enter, "ip", *arguments], check=True)


class Hosts:
    """The two namespaces and the roles in them."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._roles: list[subprocess.Popen[bytes]] = []
        self._far = subprocess.Popen(["unshare", "-n", "sleep", "3600"])
        own = Path("/proc/self/ns/net").readlink()
        wait(lambda: Path(f"/proc/{self._far.pid}/ns/net").readlink() != own, "the other namespace")
        _ip("link", "set", "lo", "up")
        _ip("link", "add", "here", "type", "veth", "peer", "name", "there")
        _ip("link", "set", "there", "netns", str(self._far.pid))
        _ip("addr", "add", f"{HERE}/24", "dev", "here")
        _ip("link", "set", "here", "up")
        _ip("addr", "add", f"{THERE}/24", "dev", "there", inside=self._far.pid)
        _ip("link", "set", "there", "up", inside=self._far.pid)

    def wire(self, state: str) -> None:
        """`up` or `down`."""
        _ip("link", "set", "here", state)

    def start(self, module: str, config: dict[str, object], *, far: bool = False) -> dict[str, str]:
        """Start a role and wait until it is ready; its status line."""
        enter = ["nsenter", "-t", str(self._far.pid), "-n"] if far else []
        out = self._folder / f"{module}.out"
        with out.open("wb") as said, (self._folder / f"{module}.log").open("wb") as log:
            command = [*enter, sys.executable, "-m", module, "--config", json.dumps(config)]
            role = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=said, stderr=log)
        self._roles.append(role)
        newest: dict[str, str] = {}

        def ready() -> bool:
            lines = out.read_text().splitlines()
            newest.update(json.loads(lines[-1]) if lines else {})
            if role.poll() is not None:
                raise RuntimeError((self._folder / f"{module}.log").read_text()[-2000:])
            return newest.get("state") == "ready"

        wait(ready, module)
        return newest

    def close(self) -> None:
        for process in [*self._roles, self._far]:
            with suppress(ProcessLookupError):
                process.send_signal(signal.SIGKILL)
            process.wait(10)


def wait(true: object, what: str) -> None:
    """Look again until it is so."""
    assert callable(true)
    deadline, pause = time.monotonic() + START, threading.Event()
    while time.monotonic() < deadline:
        if true():
            return
        pause.wait(0.05)
    raise RuntimeError(f"not within {START} s: {what}")


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "model").mkdir()
        write_byte_llama(folder / "model")
        hosts = Hosts(folder)
        try:
            wrong = _story(hosts, str(folder / "model"))
        finally:
            hosts.close()
    sys.stdout.write("".join(f"WRONG: {each}\n" for each in wrong) or "all holds\n")
    raise SystemExit(bool(wrong))


def _story(hosts: Hosts, model: str) -> list[str]:
    mesh = {"insecure": True}  # nobody else is in these namespaces
    drafter = f"tcp://{THERE}:{PORT}"
    relay = Relay(THERE, PORT)
    shared: dict[str, object] = {"mesh": mesh}
    hosts.start(
        "drafter", {**shared, "bind": drafter, "method": "suffix", "target": model}, far=True
    )
    verifier = {
        **shared,
        "drafters": [relay.address],
        "model": model,
        "dtype": "float32",
        "kv_bytes": 1 << 24,
    }
    address = hosts.start("verifier", verifier)["address"]
    front: dict[str, object] = {"model": model, "name": "m", "port": 0, "verifiers": [address]}
    url = hosts.start("orchestrator.front", front)["http"]
    wait(lambda: httpx.get(f"{url}/ready").json()["drafters"] == 1, "all are linked")
    asker = Asker(url)
    if asker.drafting_again() > BOUND:
        asker.wrong.append("no drafts before anything went wrong")
    hosts.wire("down")
    for _ in range(DOWN):
        asker.ask()
    wait(lambda: httpx.get(f"{url}/ready").json()["drafters"] == 0, "silence ends the link")
    if asker.ask():
        asker.wrong.append("drafts over a wire that is down")
    hosts.wire("up")
    seconds = asker.drafting_again()
    sys.stdout.write(f"drafting again {seconds:.2f} s after the wire was up\n")
    if seconds > BOUND:
        asker.wrong.append(f"drafting again after {seconds:.1f} s")
    try:
        return faults(asker, relay, lambda line: sys.stdout.write(f"{line}\n"))
    finally:
        relay.close()


if __name__ == "__main__":
    main()
