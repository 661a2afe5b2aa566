"""Planted faults of links and endpoints."""

from collections.abc import Mapping
from typing import Final

from protocol import link
from protocol.endpoint import Endpoint
from protocol.link import Answerer, Channel, Dialler
from protocol.loop import Dialled
from tests.sim.edits import Edit, Fault, fault

LINKS: Final[Mapping[str, Fault]] = {
    "gap accepted": fault(Channel, "take", "frame.seq != self.read + 1 or ", ""),
    "duplicates read": fault(Channel, "take", "return Reading.OLD", "return Reading.NEXT"),
    "old frames as signs of life": fault(
        Channel, "take", "return Reading.OLD", "self.heard_at = now\n        return Reading.OLD"
    ),
    "link number unchecked by the dialler": fault(
        Dialler, "receive", " and frame.link == self.channel.link", "", rare=True
    ),
    "link number unchecked by the answerer": fault(
        Answerer, "receive", " or frame.link != self.channel.link", ""
    ),
    "dial unchecked in an answer": fault(
        Dialler,
        "_welcome",
        "welcome.dial == self.dial and ",
        "",
        rare=True,
    ),
    "answer obeyed on a live link": fault(Dialler, "_welcome", " and self.channel is None", ""),
    "Refuse of another link obeyed": fault(link, "_ends", " and frame.link == channel.link", ""),
    "no Refuse(link)": fault(
        Answerer,
        "receive",
        "return [], [no_link(frame.link)]",
        "return [], []",
        unseen="silence says the same, later",
    ),
    "Refuse(link) ignored": fault(
        link, "_ends", "channel is not None and", "False and", unseen="silence says the same, later"
    ),
    "dial not drawn anew": fault(Dialler, "_redial", "self.dial = self._draw()", "pass"),
    "gap without a new dial": fault(
        Dialler,
        "receive",
        'return self._redial("gap", now), []',
        "return [], []",
        unseen="silence ends the link, later",
    ),
    "Hello said once": fault(Dialler, "_hello", "now + self._config.beat", 'float("inf")'),
    "second Hello obeyed": fault(Answerer, "_hello", " or hello.dial != self._dial", " or True"),
    "new dial ignored": fault(Answerer, "_hello", " or hello.dial != self._dial", ""),
    "old link kept at a new dial": fault(
        Answerer, "_hello", 'events = self._drop("redialled")', "pass"
    ),
    "link number once a process": fault(
        Answerer, "_hello", "self._draw()", 'self.__dict__.setdefault("once", self._draw())'
    ),
    "no heartbeats": fault(Channel, "beat_due", "now >= self.said_at + config.beat", "False"),
    "beats acknowledge beats": fault(Channel, "take", "if frame.kind is Kind.DATA:", "if True:"),
    "no early acknowledgements": fault(
        Channel,
        "beat_due",
        "2 * self.unsaid_frames >= config.window_frames",
        "False",
        unseen="the next heartbeat acknowledges too: slower",
    ),
    "unsequenced heartbeats": Fault(
        (
            Edit(Channel, "stamp", "self.sent += 1", "self.sent += kind is Kind.DATA"),
            Edit(
                Channel,
                "take",
                "if frame.seq <= self.read:",
                "if frame.kind is Kind.BEAT:\n        self.heard_at = now\n"
                "        return Reading.NEXT\n    if frame.seq <= self.read:",
            ),
        )
    ),
    "no silence rule at the dialler": fault(
        Dialler, "tick", "self.channel.silent(self._config, now)", "False"
    ),
    "no silence rule at the answerer": fault(
        Answerer, "tick", "self.channel.silent(self._config, now)", "False"
    ),
    "no window": fault(Channel, "writable", "len(self.sizes) < self.window.frames", "True"),
    "acknowledgements not taken": fault(
        Channel, "take", "self.acked = max(self.acked, frame.ack)", "pass"
    ),
    "acknowledged before it was read": fault(
        Channel, "stamp", "self.sent, self.read, messages", "self.sent, self.read + 1, messages"
    ),
    "silence judged before reading": fault(
        Endpoint,
        "drain",
        "events: list[Event] = []",
        "events = [\n"
        "        event\n"
        "        for lane in list(self._lanes.values())\n"
        "        if lane.side.channel and lane.side.channel.silent(self._config, now)\n"
        "        for event in self._note(lane.side.tick(now, self.heartbeat)[0], lane)\n"
        "    ]",
        rare=True,
    ),
    "held frame dropped": fault(Endpoint, "_hold", "lane.held = frames", "pass"),
    "held frame never sent": fault(Endpoint, "_flush", "lane.held is not None", "False"),
    "held frame survives its link": fault(Endpoint, "_note", "lane.held = None", "pass", rare=True),
    "beat behind a held frame counted": fault(
        Endpoint, "_hold", "lane.side.channel.sent -= 1", "pass", rare=True
    ),
    "hung-up peer stays": fault(
        Endpoint, "hang_up", "self._lanes.pop(peer, None)", "self._lanes.get(peer)"
    ),
    "hung-up link stays with the core": fault(
        Endpoint, "hang_up", 'self._note([LinkDown(lane.side.channel.link, "hung up")], lane)', "[]"
    ),
    "removed peer still dialled": fault(
        Dialled, "update", "if each not in wanted", "if False", rare=True
    ),
}
