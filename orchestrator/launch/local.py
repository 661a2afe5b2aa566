"""The local launcher: children of this process, supervised by a thread. They end when this process does.

Other launchers differ in how a child is started, and use the same thread: a `Starter` makes what runs.

A child sees the end of its stdin when we are gone; we see the end of its stdout when it is gone. So neither side polls.
"""

import os
import queue
import selectors
import shutil
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Final

from orchestrator.front.config import FrontConfig
from orchestrator.launch import Watch
from orchestrator.launch.events import (
    Action,
    Changed,
    Event,
    Exited,
    Kill,
    Over,
    Said,
    Spawn,
    Spawned,
    StopAsked,
    Tell,
    Tick,
    Wish,
)
from orchestrator.launch.plan import Child, Spare, no_spare
from orchestrator.launch.starter import Here, Running, Starter
from orchestrator.launch.supervisor import Supervisor
from orchestrator.launch.telling import kept, last_words, metrics_page, sweep_logs, told
from orchestrator.launch.wishes import RefusedError
from protocol.rundir import NodeState, ServiceState, StateFile, cache_folder

STOP: Final = b"!"
WISH: Final = b"?"
"""Why the thread is woken."""


class LocalService:
    """Keeps the contract of `orchestrator.launch.Service`."""

    def __init__(
        self,
        children: Sequence[Child],
        watch: Watch,
        starter: Starter | None = None,
        spare: Spare = no_spare,
    ) -> None:
        self._starter = starter or Here()
        self.name = f"service-{os.getpid()}-{time.monotonic_ns() % 1_000_000}"
        self.logs = cache_folder() / "logs" / self.name
        self.logs.mkdir(parents=True)
        sweep_logs(self.logs.parent)
        self._watch = watch
        self._front = next(c.config for c in children if isinstance(c.config, FrontConfig))
        self._core = Supervisor(children, time.monotonic(), spare)
        self._processes: dict[str, Running] = {}
        self._state_file = StateFile(self.name)
        self._selector = selectors.DefaultSelector()
        self._wake_read, self._wake_write = os.pipe()
        os.set_blocking(self._wake_read, False)
        self._selector.register(self._wake_read, selectors.EVENT_READ, None)
        self._wishes: queue.SimpleQueue[tuple[Wish, Future[None]]] = queue.SimpleQueue()
        self._control = ""
        self._changed = threading.Condition()
        self._over: Over | None = None
        self._thread = threading.Thread(target=self._run, name="launcher", daemon=True)
        self._thread.start()

    # --- for other threads -------------------------------------------------------------------------

    @property
    def url(self) -> str:
        return next((each.http for each in self._core.members.values() if each.http), "")

    def wait_up(self, seconds: float | None = None) -> bool:
        """Block until all that is needed is ready (True), or until it is over or the time is (False)."""
        with self._changed:
            self._changed.wait_for(lambda: self._core.up or self._over is not None, seconds)
            return self._over is None and self._core.up

    def wait(self, seconds: float | None = None) -> Over | None:
        """Block until it is over; None when the time is over first."""
        with self._changed:
            self._changed.wait_for(lambda: self._over is not None, seconds)
        if self._over is not None:
            self._thread.join()
        return self._over

    def stop(self) -> None:
        """The first call asks for an orderly end, the second for one at once."""
        self._wake(STOP)

    def wish(self, wish: Wish) -> None:
        """Have it begun; a RefusedError if it cannot be had."""
        done: Future[None] = Future()
        self._wishes.put((wish, done))
        if not self._wake(WISH):
            raise RefusedError("the service is over")
        done.result()

    def wait_for(self, true: Callable[[tuple[NodeState, ...]], bool], seconds: float) -> None:
        """Block until it is true of the nodes, or the service or the time is over."""
        with self._changed:
            self._changed.wait_for(lambda: self._over is not None or true(self.nodes), seconds)

    def look_again(self) -> None:
        """Those who wait have other reasons now."""
        with self._changed:
            self._changed.notify_all()

    def obeys_at(self, address: str) -> None:
        """Tell those who look for this service where its launcher is asked for things."""
        self._control = address
        self._publish()

    @property
    def nodes(self) -> tuple[NodeState, ...]:
        """All of them as they are now, guests behind the others."""
        return told(self._core.members.values(), self._core.guests.values())

    def _wake(self, why: bytes) -> bool:
        """False if nobody is there any more."""
        with self._changed:
            if self._over is None:
                os.write(self._wake_write, why)
            return self._over is None

    # --- the thread --------------------------------------------------------------------------------

    def _run(self) -> None:
        over: Over | None = None
        try:
            while over is None:
                over = self._turn()
        finally:
            for process in self._processes.values():  # only after a fault of our own
                process.kill()
            self._close(over if over is not None else Over(1, "The launcher itself failed."))

    def _turn(self) -> Over | None:
        events: list[Event] = [Tick()]
        wait = max(0.0, self._core.deadline() - time.monotonic())
        for key, _ in self._selector.select(None if wait == float("inf") else wait):
            events += self._woken() if key.data is None else self._heard(key.data)
        for event in events:
            if (over := self._feed(event)) is not None:
                return over
        return None

    def _woken(self) -> list[Event]:
        woken = os.read(self._wake_read, 64)
        for _ in range(woken.count(WISH)):
            wish, done = self._wishes.get_nowait()
            try:
                self._feed(wish)  # no wish ends the service
            except RefusedError as error:
                done.set_exception(error)
            else:
                done.set_result(None)
        return [StopAsked()] * woken.count(STOP)

    def _heard(self, name: str) -> list[Event]:
        process = self._processes[name]
        lines = process.read()
        if lines is not None:
            return [Said(name, line.pop("state"), line) for line in lines]
        self._selector.unregister(process.stdout)
        del self._processes[name]
        return [Exited(name, process.reap())]

    def _feed(self, event: Event) -> Over | None:
        """Give the core an event and do what it says, and what it says to that."""
        events = [event]
        while events:
            for action in self._core.handle(events.pop(0), time.monotonic()):
                if isinstance(action, Over):
                    return action
                events += self._do(action)
        return None

    def _do(self, action: Action) -> list[Event]:
        match action:
            case Spawn():
                return [self._spawn(action.child)]
            case Tell() if action.name in self._processes:
                self._processes[action.name].tell(action.line)
            case Kill() if action.name in self._processes:
                self._processes[action.name].kill()
            case Changed():
                self._publish()
                self._watch(action)
            case _:
                pass  # the child is gone already: its exit is on its way
        return []

    def _spawn(self, child: Child) -> Event:
        try:
            process = self._starter.start(child, self.logs / f"{child.name}.log")
        except OSError:
            return Exited(child.name, 127)
        self._processes[child.name] = process
        self._selector.register(process.stdout, selectors.EVENT_READ, child.name)
        return Spawned(child.name, process.pid)

    def _publish(self) -> None:
        """Tell those who look for us from other processes, then those who wait in this one."""
        with self._changed:
            if self.url and self._over is None:
                self._state_file.write(self._told())
            self._changed.notify_all()

    def _told(self) -> ServiceState:
        members = self._core.members.values()
        return ServiceState(
            name=self.name,
            pid=os.getpid(),
            url=self.url,
            model=self._front.name,
            folder=str(self._front.model),
            nodes=self.nodes,
            keys=str(self._front.mesh.keys or ""),
            metrics=metrics_page(self._front, members),
            logs=str(self.logs),
            grpc=next((each.grpc for each in members if each.grpc), ""),
            control=self._control,
            traces=kept(self._front.otlp_traces_endpoint),
        )

    def _close(self, over: Over) -> None:
        if over.code:
            over = Over(over.code, over.text + last_words(self.logs, over.name), over.name)
        else:
            shutil.rmtree(self.logs, ignore_errors=True)
        self._starter.close()
        self._selector.close()
        with self._changed:
            self._state_file.close()
            self._over = over
            self._changed.notify_all()
        while not self._wishes.empty():
            self._wishes.get_nowait()[1].set_exception(RefusedError("the service is over"))
        os.close(self._wake_read)
        os.close(self._wake_write)
