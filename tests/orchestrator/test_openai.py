"""The `openai` client against the real app, mesh loop and server; only the verifier answers by a script."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import openai
import pytest

from tests.interop.apart import environment
from tests.interop.openai_1x import CLIENT, FOLDER, TOUR
from tests.interop.openai_tour import Tour
from tests.orchestrator.fakes import echo
from tests.orchestrator.live import LiveFront


@pytest.fixture(scope="module")
def front(tiny: Path) -> Iterator[LiveFront]:
    with LiveFront(tiny) as live:
        yield live


@pytest.fixture
def client(front: LiveFront) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=front.url, api_key="none", max_retries=0, timeout=30) as one:
        yield one


STEPS = [name for name in dir(Tour) if name.startswith("step_")]


@pytest.mark.parametrize("step", STEPS)
def test_the_tour(front: LiveFront, step: str) -> None:
    tour = Tour(front.url)
    with tour.client:
        getattr(tour, step)()


@pytest.mark.full
@pytest.mark.timeout(600)
def test_the_tour_with_an_old_client(front: LiveFront) -> None:
    command = [str(environment(FOLDER, CLIENT)), str(TOUR), front.url]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.startswith("openai 1.")


def test_a_key_is_asked_for(tiny: Path) -> None:
    with LiveFront(tiny, api_key="right") as front:
        with openai.OpenAI(base_url=front.url, api_key="right", timeout=30) as client:
            assert client.models.list().data[0].id == "tiny"
        wrong = openai.OpenAI(base_url=front.url, api_key="wrong", max_retries=0, timeout=30)
        with wrong, pytest.raises(openai.AuthenticationError) as refused:
            wrong.models.list()
        assert refused.value.code == "invalid_api_key"


def test_a_client_that_hangs_up_is_aborted(front: LiveFront, client: openai.OpenAI) -> None:
    front.verifier.script = lambda submit: list(echo(submit))[:-1]  # it never says that it is done
    try:
        with client.completions.create(model="tiny", prompt="ab", stream=True) as stream:
            next(iter(stream))
        assert front.verifier.aborted.wait(30)
        assert len(front.verifier.aborts) == 1
    finally:
        front.verifier.script = echo
