"""Programs that others wrote against a real service: `make interop`, or `python -m tests.interop [NAME...]`.

Each has an environment of its own. What it found is written into `docs/interop.md`; a program that is not content
ends this one with code 1.
"""

import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Final, NamedTuple

from orchestrator.models import resolve
from tests.e2e.service import ROOT, Service, up
from tests.generated import rewritten
from tests.interop import load, scores
from tests.interop.apart import environment, folder, version
from tests.models import write_byte_llama

PAGE: Final = ROOT / "docs" / "interop.md"
MAKER: Final = "python -m tests.interop"
TOUR: Final = Path(__file__).with_name("openai_tour.py")
MODEL: Final = "smollm2-135m"


class Scene:
    """The services that programs are tried on, started when one is asked for."""

    def __init__(self, stack: ExitStack) -> None:
        self.model = resolve(MODEL, lambda *_: None)
        self.place = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        self._stack = stack
        self._services: dict[tuple[str, int], Service] = {}

    def url(self, drafters: int = 2, target: str = MODEL) -> str:
        """Where a service with so many drafters is."""
        if (target, drafters) not in self._services:
            place = self._folder()
            patient = "link: {silence: 600.0}\n"  # others may want this machine, too
            (place / "draftmesh.yaml").write_text(patient, encoding="utf-8")
            flags = ("--drafters", str(drafters))
            service = self._stack.enter_context(up(target, place, *flags))
            self._services[target, drafters] = service
        return f"{self._services[target, drafters].url}/v1"

    def small(self) -> str:
        """A service of a model that is nothing but quick, for those who ask hundreds of questions."""
        if not (self.place / "small").exists():
            write_byte_llama(self.place / "small")
        return self.url(target=str(self.place / "small"))

    def _folder(self) -> Path:
        return Path(self._stack.enter_context(tempfile.TemporaryDirectory()))


def openai_now(scene: Scene) -> tuple[str, str]:
    return _toured(scene, "openai", "openai>=3")


def openai_1x(scene: Scene) -> tuple[str, str]:
    return _toured(scene, "openai-1", "openai>=1.40,<2")


def _toured(scene: Scene, name: str, package: str) -> tuple[str, str]:
    python = environment(folder(name), package)
    done = subprocess.run([python, TOUR, scene.url()], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    steps = len(done.stdout.splitlines()) - 1
    return version(python, "openai"), f"all {steps} steps of our tour of the API"


def made_up(scene: Scene) -> tuple[str, str]:
    python = environment(folder("schemathesis"), "schemathesis")
    root = scene.small().removesuffix("/v1")
    command = [
        str(python.with_name("schemathesis")), "run", f"{root}/openapi.json", "--url", root,
        "--max-examples", "5", "--request-timeout", "600", "--no-color",
        "--output-sanitize", "false",
        "--exclude-checks", "positive_data_acceptance",
    ]  # fmt: skip
    done = subprocess.run(command, cwd=scene.place, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-6000:]
    cases = [line for line in done.stdout.splitlines() if "generated" in line]
    told = cases[-1].strip(" .") if cases else "no fault found"
    return version(python, "schemathesis"), told


def evaluated(scene: Scene) -> tuple[str, str]:
    python = environment(folder("lm-eval"), *scores.PACKAGES)
    with_drafts, plain = (
        scores.scored(python, scene.url(count), scene.model, scene.place / f"lm-eval-{count}")
        for count in (2, 0)
    )
    assert with_drafts == plain, (with_drafts, plain)
    answers = sum(map(len, plain["answers"]))
    told = (
        f"accuracy {plain['choose']:.3f} and exact match {plain['continue']:.3f}, "
        f"with drafts and without; all {answers} answers are the same"
    )
    return version(python, "lm_eval"), told


def driven(scene: Scene) -> tuple[str, str]:
    python = environment(folder("guidellm"), *load.PACKAGES)
    found = load.loaded(python, scene.url(), scene.model, scene.place / "guidellm")
    requests = found["request_totals"]
    assert requests["successful"] == load.REQUESTS, requests
    told = f"{requests['successful']} requests, all successful"
    return version(python, "guidellm"), told


class Case(NamedTuple):
    what: str
    run: Callable[[Scene], tuple[str, str]]


CASES: Final[Mapping[str, Case]] = {
    "openai": Case("the client, as it is now", openai_now),
    "openai-1": Case("its last 1.x", openai_1x),
    "schemathesis": Case("requests made up from `/openapi.json`, over HTTP", made_up),
    "lm-eval": Case("`local-completions` with a task of ours", evaluated),
    "guidellm": Case("three at once", driven),
}


def main() -> None:
    """Try those that are named, else all; keep what others found before."""
    names = sys.argv[1:] or list(CASES)
    with ExitStack() as stack:
        scene = Scene(stack)
        rows, failed = known(), False
        for name in names:
            begun = time.monotonic()
            try:
                told = CASES[name].run(scene)
                rows[name] = f"| `{name}` {told[0]} | {CASES[name].what} | {told[1]} |"
            except (AssertionError, OSError, subprocess.CalledProcessError) as error:
                failed = True
                sys.stdout.write(f"{name} is not content:\n{error}\n")
            else:
                sys.stdout.write(f"{rows[name]} {time.monotonic() - begun:.0f} s\n")
    head = ["| program | what it does | what it found |", "| --- | --- | --- |"]
    made = "\n".join([*head, *(rows[name] for name in CASES if name in rows)])
    text = PAGE.read_text(encoding="utf-8")
    PAGE.write_text(rewritten(text, {"programs": made}, MAKER), encoding="utf-8")
    raise SystemExit(int(failed))


def known() -> dict[str, str]:
    """The rows that stand in the page."""
    lines = PAGE.read_text(encoding="utf-8").splitlines()
    return {name: line for name in CASES for line in lines if line.startswith(f"| `{name}` ")}


if __name__ == "__main__":
    main()
