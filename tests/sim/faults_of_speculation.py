"""Planted faults of tails, bindings and mirrors."""

from collections.abc import Mapping
from typing import Final

from drafter.core import DrafterCore
from drafter.mirror import Mirror
from protocol.outbox import Outbox
from tests.sim.edits import Fault, fault
from verifier import drafting, hidden
from verifier.drafting import Drafting
from verifier.hidden import Hidden
from verifier.roster import Roster, Waits
from verifier.tail import DraftTail

SPECULATION: Final[Mapping[str, Fault]] = {
    "late tokens not compared": fault(DraftTail, "receive", "self._settle()", "pass"),
    "start beyond the line taken": fault(DraftTail, "receive", "if start > end", "if False"),
    "no rewind": fault(DraftTail, "receive", "start < self.agreed", "False"),
    "no cut": fault(DraftTail, "_settle", "self.cut = True", "pass"),
    "cut never ends": fault(
        DraftTail,
        "receive",
        "self.cut = False",
        "pass",
        unseen="whoever answers a cut knows more commits, and a newer base ends it too",
    ),
    "base not settling": fault(DraftTail, "receive", "if base > self.agreed:", "if False:"),
    "newest base not kept": fault(DraftTail, "receive", "self.base = max(self.base, base)", "pass"),
    "no length cap": fault(
        DraftTail, "_check", "row.start + count > base + self.granted", "False", rare=True
    ),
    "base beyond the committed": fault(
        DraftTail, "_check", "base > len(self.final)", "False", rare=True
    ),
    "token ids unchecked": fault(DraftTail, "_check", "count and", "False and", rare=True),
    "confidences not settled": fault(
        DraftTail,
        "_settle",
        "del self.ahead[:same], self.confidences[:same]",
        "del self.ahead[:same]",
    ),
    "laws not settled": fault(DraftTail, "_settle", ", self.laws[:same]", ""),
    "law of another": fault(Mirror, "adopt", ", self.laws[: end - self.base]", ""),
    "epoch not compared": fault(drafting, "_bound", "binding.epoch != epoch", "False", rare=True),
    "epoch not raised": fault(Drafting, "bind", "generation.epoch += 1", "generation.epoch = 1"),
    "link of a row not compared": fault(
        drafting, "_bound", "binding.drafter.link != link", "False"
    ),
    "feature hole unnoticed": fault(
        Hidden, "take", "binding.told_hidden = end", "binding.told_hidden = end + 1"
    ),
    "rows sent again": fault(
        Hidden, "take", "binding.told_hidden = end", "binding.told_hidden = start"
    ),
    "rows of the next position": fault(
        Hidden,
        "filled",
        "list(self._spans.values())",
        "[Span(s[0], s[1] + 1, s[2] + 1) for s in self._spans.values()]",
    ),
    "rows that do not fit forgotten": fault(Drafting, "messages", "self.hidden.behind", "()"),
    "rows of guesses": fault(
        hidden,
        "known",
        "min(generation.sequence.computed, len(generation.line) - 1)",
        "len(generation.line) + 1",
    ),
    "close forgotten": fault(Drafting, "unbind", "binding.told is not None", "False"),
    "close of another epoch": fault(Drafting, "unbind", "binding.epoch,", "binding.epoch + 1,"),
    "close after open": fault(
        Outbox,
        "take",
        "waiting = iter(self._notes.pop(link, ()))",
        "waiting = iter(() if self._news.get(link) else self._notes.pop(link, ()))",
        unseen="both wait only behind a closed window, and an epoch fences the close",
    ),
    "fault without close": fault(
        Drafting,
        "row",
        'self._leave(known, "fault", now)',
        'setattr(binding.drafter, "bound", binding.drafter.bound - 1), setattr(known, "binding", None)',
        rare=True,
    ),
    "no wait after refusal": fault(Waits, "over", "now >= self.until", "True or self.until"),
    "waits do not double": fault(Waits, "refused", "2 * before", "FIRST_WAIT", rare=True),
    "requests stay bound at a dead link": fault(
        Drafting, "link_down", "generation.binding = None", "pass"
    ),
    "told again and again": fault(Drafting, "tell", "binding.told = len(output)", "pass"),
    "grant not remembered": fault(Drafting, "tell", "binding.tail.grant(max_ahead)", "pass"),
    "drained drafter chosen": fault(
        Roster,
        "heard",
        'message.state == "draining"',
        "False",
        unseen="the drafter refuses by itself: a longer wait",
    ),
    "Refuse without epoch": fault(DrafterCore, "_refuse", "epoch=epoch", "epoch=0"),
    "no Refuse(unknown)": fault(
        DrafterCore,
        "_commit",
        'self._refuse(link, commit.request, commit.epoch, "unknown", "no such mirror")',
        "pass",
        unseen="a mirror goes only with its link or with a refusal that was said before",
    ),
    "mirror of another epoch takes commits": fault(
        DrafterCore,
        "_commit",
        " or mirror.epoch != commit.epoch",
        "",
        unseen="links keep order, so nothing of an older epoch arrives behind a newer one's",
    ),
    "old mirrors kept at a new dial": fault(
        DrafterCore, "handle", "self._mirrors.pop(event.link, {}).values()", "()"
    ),
    "closed mirror stays hungry": fault(
        DrafterCore, "_drop", "self._hungry.pop(mirror, None)", "pass"
    ),
    "closed mirror keeps its news": fault(
        DrafterCore, "_drop", "self._outbox.forget(mirror.link, mirror.request)", "pass", rare=True
    ),
    "DraftClose ignored": fault(DrafterCore, "_message", "self._close(", "("),
    "DraftClose of any epoch": fault(
        DrafterCore,
        "_message",
        "mirror.epoch == message.epoch",
        "True",
        unseen="links keep order, so nothing of an older epoch arrives behind a newer one's",
    ),
    "second mirror beside the first": fault(
        DrafterCore,
        "_open",
        "self._close(",
        "(",
        unseen="a close is always said before the next opening",
    ),
    "shared place not given up": fault(
        DrafterCore, "_make_room", 'self._close(mirror, "shared", now)', "pass"
    ),
    "shared place given up without a word": fault(
        DrafterCore,
        "_make_room",
        'self._refuse(mirror.link, mirror.request, mirror.epoch, "full", text)',
        "pass",
        rare=True,
    ),
    "left without a wait": fault(
        Drafting, "_leave", "generation.waits.refused(binding.drafter.link, reason, now)", "pass"
    ),
    "slow drafter left without a close": fault(
        Drafting,
        "judged",
        'self._leave(generation, "slow", part.now)',
        'setattr(generation, "binding", None)',
    ),
    "slow drafter tried by the next request": fault(
        Drafting,
        "judged",
        "binding.drafter.doubted = True",
        "pass",
        rare=True,
        unseen="each of them leaves it again",
    ),
    "one left for good": fault(
        Roster,
        "heard",
        "drafter.doubted = False",
        "pass",
        rare=True,
        unseen="others draft",
    ),
    "nearest drafter has every request": fault(
        Roster,
        "choose",
        "untried or able",
        "able",
        rare=True,
        unseen="seldom is the nearest one worth nothing: seed 343 was one of 500",
    ),
    "more mirrors than allowed": fault(
        DrafterCore, "_open", "len(self) >= self._config.max_requests", "False"
    ),
    "full mirror says nothing": fault(
        DrafterCore, "_commit", "self._outbox.news(link, mirror.request, mirror)", "pass"
    ),
    "guesses kept at a difference": fault(Mirror, "adopt", "self.said = end", "pass"),
    "draft KV kept at a difference": fault(
        Mirror, "adopt", "kept = true\n", "kept = len(self.line)\n"
    ),
    "run out taken for a match": fault(
        Mirror, "adopt", "true == end", "true == min(end, len(self.line))"
    ),
    "base alone is no news": fault(Mirror, "unsaid", " or self.said_base < self.base", ""),
    "exhausted for good": fault(Mirror, "adopt", "self.exhausted = False", "pass"),
    "taking back not said": fault(Mirror, "replace", "self.said = min(self.said, start)", "pass"),
    "more guesses than granted": fault(
        Mirror, "room", "self.base + self.max_ahead", "self.base + self.max_ahead + 2"
    ),
    "row says an old base": fault(
        Mirror, "take", "self.epoch, base,", "self.epoch, max(0, base - 1),"
    ),
}
