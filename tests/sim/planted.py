"""Faults planted into the code on purpose: the simulation is worth what it notices of them.

A fault is a small edit of one method: a piece of its source is replaced, the method is compiled again and put back
when the context ends. An edit that no longer fits the source fails loudly.
"""

import inspect
import sys
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from drafter.core import DrafterCore
from drafter.mirror import Mirror
from engine.pages import PagePool
from protocol.endpoint import Endpoint
from protocol.link import Answerer, Channel, Dialler
from protocol.outbox import Outbox
from verifier.commit import Output
from verifier.core import VerifierCore
from verifier.drafting import Drafting
from verifier.roster import Waits
from verifier.scheduler import Scheduler
from verifier.tail import DraftTail


@dataclass(frozen=True, slots=True)
class Edit:
    """In the source of `owner.method`, `old` (which is there exactly once) becomes `new`."""

    owner: type
    method: str
    old: str
    new: str


@contextmanager
def planted(name: str) -> Iterator[None]:
    """The code has this fault inside the context."""
    edits = PLANTED[name]
    originals = [edit.owner.__dict__[edit.method] for edit in edits]
    try:
        for edit in edits:
            setattr(edit.owner, edit.method, _edited(edit))
        yield
    finally:
        for edit, original in reversed(list(zip(edits, originals, strict=True))):
            setattr(edit.owner, edit.method, original)


def _edited(edit: Edit) -> object:
    member = edit.owner.__dict__[edit.method]
    function = member.fget if isinstance(member, property) else getattr(member, "__func__", member)
    source = textwrap.dedent(inspect.getsource(function))
    if source.count(edit.old) != 1:
        raise LookupError(f"{edit.old!r} is {source.count(edit.old)} times in {edit.method}")
    names = dict(vars(sys.modules[edit.owner.__module__]))
    exec(source.replace(edit.old, edit.new), names)  # noqa: S102  # our own source, one line changed
    return names[edit.method]


def _one(owner: type, method: str, old: str, new: str) -> Sequence[Edit]:
    return (Edit(owner, method, old, new),)


PLANTED: Final[Mapping[str, Sequence[Edit]]] = {
    # the draft tail
    "late tokens not compared": _one(
        DraftTail, "receive", "self.cut = False\n    self._settle()", "self.cut = False"
    ),
    "start beyond the line taken": _one(DraftTail, "receive", "row.start > end", "False"),
    "no rewind": _one(DraftTail, "receive", "row.start < self.agreed", "False"),
    "no cut": _one(DraftTail, "_settle", "self.cut = True", "pass"),
    "cut never ends": _one(DraftTail, "receive", "self.cut = False", "pass"),
    "base not settling": _one(DraftTail, "receive", "row.base > self.agreed:", "False:"),
    "no length cap": _one(DraftTail, "_check", "row.start + count > row.base", "False and row.base"),
    "base beyond the committed": _one(DraftTail, "_check", "row.base > self.committed", "False"),
    "token ids unchecked": _one(DraftTail, "_check", "count and", "False and"),
    "confidences not settled": _one(
        DraftTail, "_settle", "del self.ahead[:same], self.confidences[:same]", "del self.ahead[:same]"
    ),
    # epochs and bindings
    "epoch not compared": _one(
        Drafting, "_current", " or binding.epoch != epoch", ""
    ),
    "epoch not raised": _one(Drafting, "bind", "generation.epoch += 1", "generation.epoch = 1"),
    "close forgotten": _one(Drafting, "unbind", "binding.told is not None", "False"),
    "close after open": _one(
        Outbox, "take",
        "messages: list[AnyMessage] = self._notes.pop(link, [])",
        "if not self._news.get(link):\n        return self._notes.pop(link, [])\n    messages: list[AnyMessage] = []",
    ),
    "fault without close": _one(
        Drafting, "row", 'self.unbind(generation, "fault")',
        "generation.binding = None\n        binding.drafter.bound -= 1",
    ),
    "no wait after refusal": _one(Waits, "over", "now >= self.until", "True or self.until"),
    "requests stay bound at a dead link": _one(
        Drafting, "link_down", "generation.binding = None", "pass"
    ),
    "told again and again": _one(Drafting, "tell", "binding.told = len(output)", "pass"),
    "grant not remembered": _one(Drafting, "tell", "binding.tail.grant(max_ahead)", "pass"),
    "Refuse without epoch": _one(DrafterCore, "_refuse", "epoch=epoch", "epoch=0"),
    # mirrors
    "no Refuse(unknown)": _one(
        DrafterCore, "_commit",
        'self._refuse(link, commit.request, commit.epoch, "unknown", "no such mirror")', "pass",
    ),
    "old mirrors kept at a new dial": _one(
        DrafterCore, "handle", "self._mirrors.pop(event.link, {}).values()", "()"
    ),
    "mirror of another epoch takes commits": _one(
        DrafterCore, "_commit", " or mirror.epoch != commit.epoch", ""
    ),
    "guesses kept at a difference": _one(
        Mirror, "adopt", "self.said = end", "pass"
    ),
    "draft KV kept at a difference": _one(Mirror, "adopt", "kept = true\n", "kept = len(self.line)\n"),
    "run out taken for a match": _one(Mirror, "adopt", "true == end", "true == min(end, len(self.line))"),
    "base alone is no news": _one(
        Mirror, "unsaid", " or self.said_base < self.base", ""
    ),
    "exhausted for good": _one(Mirror, "adopt", "self.exhausted = False", "pass"),
    "taking back not said": _one(Mirror, "replace", "self.said = min(self.said, start)", "pass"),
    "more guesses than granted": _one(
        Mirror, "room", "self.base + self.max_ahead", "self.base + self.max_ahead + 2"
    ),
    "closed mirror stays hungry": _one(
        DrafterCore, "_drop", "self._hungry.pop(mirror, None)", "pass"
    ),
    "DraftClose ignored": _one(DrafterCore, "_message", "self._close(mirror)", "pass"),
    # links
    "gap accepted": _one(Channel, "take", "frame.seq != self.read + 1 or ", ""),
    "duplicates read": _one(Channel, "take", "return Reading.OLD", "return Reading.NEXT"),
    "old frames as signs of life": _one(
        Channel, "take", "return Reading.OLD", "self.heard_at = now\n        return Reading.OLD"
    ),
    "link number unchecked by the dialler": _one(
        Dialler, "receive", " and frame.link == self.channel.link", ""
    ),
    "link number unchecked by the answerer": _one(
        Answerer, "receive", " or frame.link != self.channel.link", ""
    ),
    "dial unchecked in an answer": _one(Dialler, "_welcome", "welcome.dial == self.dial and ", ""),
    "answer obeyed on a live link": _one(Dialler, "_welcome", " and self.channel is None", ""),
    "Refuse of another link obeyed": _one(
        Dialler, "_refused", "self.channel and frame.link == self.channel.link", "self.channel"
    ),
    "no Refuse(link)": _one(
        Answerer, "receive", "return [], [_no_link(frame.link)]", "return [], []"
    ),
    "dial not drawn anew": _one(Dialler, "_redial", "self.dial = self._draw()", "pass"),
    "Hello said once": _one(
        Dialler, "_hello", "now + self._config.beat", 'float("inf")'
    ),
    "second Hello obeyed": _one(Answerer, "_hello", " or hello.dial != self._dial", " or True"),
    "old link kept at a new dial": _one(
        Answerer, "_hello", 'events = self._drop("redialled")', "pass"
    ),
    "link number once a process": _one(
        Answerer, "_hello", "self._draw()", 'self.__dict__.setdefault("once", self._draw())'
    ),
    "no heartbeats": _one(Channel, "beat_due", "now >= self.said_at + config.beat", "False"),
    "beats acknowledge beats": _one(
        Channel, "take", "if frame.kind is Kind.DATA:", "if True:"
    ),
    "unsequenced heartbeats": (
        Edit(Channel, "stamp", "self.sent += 1", "self.sent += kind is Kind.DATA"),
        Edit(
            Channel, "take", "if frame.seq <= self.read:",
            "if frame.kind is Kind.BEAT:\n        self.heard_at = now\n        return Reading.NEXT\n"
            "    if frame.seq <= self.read:",
        ),
    ),
    "no silence rule at the dialler": _one(
        Dialler, "tick", "self.channel.silent(self._config, now)", "False"
    ),
    "no silence rule at the answerer": _one(
        Answerer, "tick", "self.channel.silent(self._config, now)", "False"
    ),
    "no window": _one(Channel, "writable", "len(self.sizes) < self.window.frames", "True"),
    "acknowledgements not taken": _one(
        Channel, "take", "self.acked = max(self.acked, frame.ack)", "pass"
    ),
    "silence judged before reading": _one(
        Endpoint, "drain", "events: list[Event] = []",
        "events = [\n"
        "        event\n"
        "        for lane in list(self._lanes.values())\n"
        "        if lane.side.channel and lane.side.channel.silent(self._config, now)\n"
        "        for event in self._note(lane.side.tick(now, self.heartbeat)[0], lane)\n"
        "    ]",
    ),
    "held frame dropped": _one(Endpoint, "_hold", "lane.held = frames", "pass"),
    "held frame survives its link": _one(Endpoint, "_note", "lane.held = None", "pass"),
    "beat behind a held frame counted": _one(
        Endpoint, "_hold", "lane.side.channel.sent -= 1", "pass"
    ),
    "hung-up peer stays": _one(
        Endpoint, "hang_up", 'return self._note([LinkDown(lane.side.channel.link, "hung up")], lane)', "return []"
    ),
    # the verifier
    "KV not truncated": _one(
        VerifierCore, "_commit",
        "self.scheduler.pool.truncate(generation.sequence, len(generation.line) - 1)", "pass",
    ),
    "KV of the anchor taken for computed": _one(
        VerifierCore, "_commit", "len(generation.line) - 1)", "len(generation.line))"
    ),
    "pages shared without their parents": _one(
        PagePool, "_match", "parent = cached.identity", "pass"
    ),
    "last token shared": _one(
        PagePool, "_match", "len(tokens) - self.page_size,", "len(tokens) - self.page_size + 1,"
    ),
    "idle page handed out twice": _one(
        PagePool, "open", "self._idle.pop(cached.page, None)", "pass"
    ),
    "evicted page stays cached": _one(PagePool, "_evict", "self._forget(page)", "pass"),
    "pages kept at preemption": _one(
        Scheduler, "_preempt", "self.remove(generation)", "self.running.remove(generation)\n"
        "    generation.sequence = None",
    ),
    "drafts beyond the end": _one(Scheduler, "_lengths", "each.output.room - 1", "99"),
    "tokens after the end": _one(Output, "commit", "if self.finish:", "if False:"),
    "stop text searched in the last piece only": _one(
        Output, "_cut_at_stop", "max(0, before - len(stop) + 1)", "before"
    ),
    "half a stop text sent": _one(
        Output, "certain", " - _partial_stop(self.text, self._ending.stop, self._hold)", ""
    ),
    "Done twice": _one(VerifierCore, "_end", "*_emissions(generation), done", "done, *_emissions(generation), done"),
    "last Emit lost": _one(VerifierCore, "_end", "*_emissions(generation), done", "done"),
    "Abort ignored": _one(VerifierCore, "_hear_front", 'self._end(generation, "abort", message.reason)', "pass"),
    "Abort keeps its pages": _one(VerifierCore, "_forget", "self.scheduler.remove(generation)", "pass"),
    "Abort keeps its mirror": _one(VerifierCore, "_forget", "self.drafting.unbind(generation, reason)", "pass"),
    "front door gone unnoticed": _one(
        VerifierCore, "_front_down", 'self._forget(generation, "front door gone")', "pass"
    ),
    "deadline overlooked": _one(VerifierCore, "plan", "now >= each.deadline", "False"),
    "drained drafter chosen": _one(Drafting, "heard", "self.roster.heard(link, heartbeat)", "pass"),
}
