"""Numbers on their way from a device, with copies that the test ends."""

import threading
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from engine.fetch import QueuedFetch, fetcher

ENOUGH = 30.0


class Device:
    """Copies begin empty, and are there when `arrive` is called, or fail."""

    def __init__(self) -> None:
        self._begun: list[tuple[Tensor, Tensor]] = []
        self._there = threading.Semaphore(0)
        self.fault = ""

    def copy(self, tensor: Tensor) -> tuple[Tensor, Callable[[], object]]:
        host = torch.zeros_like(tensor)
        self._begun.append((host, tensor))
        return host, self._wait

    def arrive(self) -> None:
        self._there.release()

    def _wait(self) -> None:
        assert self._there.acquire(timeout=ENOUGH)
        if self.fault:
            raise RuntimeError(self.fault)
        host, tensor = self._begun.pop(0)
        host.copy_(tensor)


def test_numbers_are_not_ready_before_they_are_copied_and_then_somebody_is_woken() -> None:
    device, woken = Device(), threading.Semaphore(0)
    fetch = QueuedFetch(device.copy)
    first, second = (fetch(torch.tensor([each]), woken.release) for each in (5, 6))
    assert not first.ready()
    device.arrive()
    assert woken.acquire(timeout=ENOUGH)
    assert (first.ready(), second.ready()) == (True, False)
    assert first.numbers().tolist() == [5]
    device.arrive()
    assert second.numbers().tolist() == [6], "it is waited for where it is wanted at once"
    assert woken.acquire(timeout=ENOUGH)


def test_what_goes_wrong_on_the_device_wakes_too_and_is_raised_where_numbers_are_taken() -> None:
    device, woken = Device(), threading.Event()
    device.fault = "an illegal memory access was encountered"
    coming = QueuedFetch(device.copy)(torch.tensor([5]), woken.set)
    device.arrive()
    assert woken.wait(ENOUGH)
    assert coming.ready()
    with pytest.raises(RuntimeError, match="illegal memory access"):
        coming.numbers()


def test_on_the_cpu_nothing_is_waited_for() -> None:
    coming = fetcher("cpu")(torch.tensor([1, 2]), lambda: pytest.fail("nobody sleeps"))
    assert coming.ready()
    assert coming.numbers().tolist() == [1, 2]
