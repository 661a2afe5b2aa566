"""This machine: Python, torch, memory, ports, files, keys, and the collector of traces."""

import os
import platform
import resource
import shutil
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import psutil
from packaging.specifiers import SpecifierSet

from orchestrator.commands.checks.finding import Finding, bad, doubt, good
from orchestrator.commands.version import of
from orchestrator.config import Config
from orchestrator.front.server import listen
from orchestrator.launch.threads import LIGHT, usable_cores
from protocol.errors import LocalError
from protocol.keys import OWN, KeyRing
from protocol.messages import PROTOCOL_VERSION
from protocol.spans import folder_of

PYTHONS: Final = SpecifierSet(">=3.11,<3.14")
GIB: Final = 1 << 30
FILES_FOR_A_NODE: Final = 64
"""Files and sockets that a process needs beside one for each client."""
SHARED_MEMORY: Final = 64 << 20
CONNECT: Final = 2.0
"""Seconds to reach a collector."""


def findings(config: Config) -> Iterator[Finding]:
    """In the order in which they are mended."""
    yield python(platform.python_version())
    yield torch()
    yield cores(config, usable_cores())
    yield memory(config, psutil.virtual_memory().available)
    yield port(config)
    yield files(config, resource.getrlimit(resource.RLIMIT_NOFILE)[0])
    yield from shared_memory(Path("/dev/shm"))  # noqa: S108  # nosec B108: it is looked at
    yield from keys(config)
    yield from collector(config)
    yield good("protocol", f"version {PROTOCOL_VERSION}")


def python(version: str) -> Finding:
    if version in PYTHONS:
        return good("python", version)
    return bad("python", f"{version} is not {PYTHONS}", "make the environment with python3.11")


def torch() -> Finding:
    """Whether it can be imported, and what it computes on."""
    try:
        import torch  # noqa: PLC0415  # seconds
    except (ImportError, OSError) as error:
        return bad("torch", f"cannot be imported: {error}", "pip install -c constraints.txt torch")
    text = f"{torch.__version__}, transformers {of('transformers')}"
    driver = Path("/proc/driver/nvidia/version").exists()
    if torch.cuda.is_available():
        return good("torch", f"{text}, CUDA {torch.version.cuda} on {torch.cuda.get_device_name()}")
    if driver and torch.version.cuda is None:
        hint = "install a build of torch with CUDA if the GPU is to be used"
        return doubt("torch", f"{text}; there is an NVIDIA driver, but torch has no CUDA", hint)
    if torch.version.cuda is not None and driver:
        hint = "nvidia-smi tells the driver's newest CUDA; a driver older than torch's has to go"
        return doubt("torch", f"{text}, CUDA {torch.version.cuda}, which finds no device", hint)
    return good("torch", f"{text}, CPU only")


def cores(config: Config, count: int) -> Finding:
    """Every process that computes wants one of its own."""
    computing = config.verifiers + (0 if config.method in LIGHT else config.drafters)
    if computing <= count:
        return good("cores", f"{count} for {computing} processes that compute")
    text = f"{count} for {computing} processes that compute"
    return doubt("cores", text, "drafts that cost the target its core are slower than none")


def memory(config: Config, available: int) -> Finding:
    """Room for the KV that the configuration allows; the weights are looked at with the models."""
    wanted = config.verifiers * config.verifier.kv_bytes
    if config.method not in LIGHT:
        wanted += config.drafters * config.drafter.kv_bytes
    text = f"{available / GIB:.1f} GiB free, KV may take {wanted / GIB:.1f}"
    if wanted < available:
        return good("memory", text)
    return bad("memory", text, "lower verifier.kv_bytes or drafter.kv_bytes, or start fewer")


def port(config: Config) -> Finding:
    try:
        listen(config.host, config.port).close()
    except (OSError, OverflowError) as error:
        return bad("port", str(error), "--port 0 picks a free one; `status` shows what runs here")
    return good("port", f"{config.host}:{config.port} can be had")


def files(config: Config, limit: int) -> Finding:
    """A connection a client is a file."""
    wanted = config.front.max_requests + FILES_FOR_A_NODE
    text = f"{limit} open files, {wanted} wanted for {config.front.max_requests} clients at once"
    if limit in {resource.RLIM_INFINITY, -1} or limit >= wanted:
        return good("files", text)
    return doubt("files", text, f"ulimit -n {wanted}")


def shared_memory(folder: Path) -> Iterator[Finding]:
    """Where threads of torch and other processes exchange data; containers have little of it."""
    if not folder.is_dir():
        return
    size = shutil.disk_usage(folder).total
    text = f"{folder} has {size / (1 << 20):.0f} MiB"
    if size >= SHARED_MEMORY:
        yield good("shared", text)
    else:
        yield doubt("shared", text, "docker run --shm-size=1g; in Kubernetes a volume of memory")


def keys(config: Config) -> Iterator[Finding]:
    """Whether the mesh's keys can be read, by their owner alone."""
    folder = config.mesh.keys
    if folder is None:
        return
    try:
        ring = KeyRing(folder)
        ring.own()
        allowed = ring.allowed()
    except (LocalError, OSError) as error:
        yield bad("keys", str(error), f"orchestrator keys new --folder {folder}")
        return
    secret = folder / f"{OWN}.key_secret"
    if secret.stat().st_mode & 0o077:
        yield bad("keys", f"others may read {secret}", f"chmod 600 {secret}")
        return
    yield good("keys", f"{folder} lets {len(allowed)} in")


def collector(config: Config) -> Iterator[Finding]:
    """Whether somebody listens where traces go."""
    url = config.otlp_traces_endpoint or os.environ.get("OTEL_EXPORTER_OTLP_ENDPOINT", "")
    if not url or folder_of(url) is not None:
        return
    place = urlsplit(url if "//" in url else f"//{url}")
    address = (place.hostname or "localhost", place.port or 4317)
    try:
        socket.create_connection(address, CONNECT).close()
    except OSError as error:
        yield doubt("traces", f"nobody listens at {url}: {error}", "start the collector first")
    else:
        yield good("traces", f"{url} can be reached")
