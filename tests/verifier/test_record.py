"""What a verifier records of requests that are traced: spans as values, before anybody makes real ones of them."""

from collections.abc import Sequence
from itertools import count
from typing import Any

import pytest

from protocol import attributes
from protocol.messages import Abort, DraftTailStream, Heartbeat, Limits
from protocol.spans import Context, Span, traceparent
from tests.verifier.test_core import DRAFTER, FRONT, SECOND, Rig
from verifier.generation import MOST_HAPPENINGS
from verifier.text import TimedDetokenizer

OURS, OTHER = Context(0xA, 0xB), Context(0xC, 0xD)


def named(spans: Sequence[Span], name: str) -> list[Span]:
    return [span for span in spans if span.name == name]


def shape(spans: Sequence[Span]) -> list[tuple[str, str, float, float]]:
    """Name, parent, and when, in hundredths of a second."""
    return [(s.name, s.parent, round(100 * s.start), round(100 * s.end)) for s in spans]


def told(rig: Rig) -> list[Span]:
    return rig.core.record.spans.take()


def ask(rig: Rig, request: int = 1, context: Context = OURS, **fields: Any) -> None:
    rig.submit(request, trace=traceparent(context), **fields)


def test_the_life_of_a_traced_choice() -> None:
    rig = Rig(Limits())
    ask(rig, max_tokens=6)
    rig.step()
    rig.says(DRAFTER)
    rig.tail(1, 1, 5, 6)
    rig.step()
    rig.step()
    rig.step()
    spans = told(rig)
    assert {span.context for span in spans} == {OURS}
    assert {span.scope for span in spans} == {1}
    assert sorted(shape(spans)) == sorted(
        [
            (attributes.CHOICE, "", 0, 4),
            (attributes.QUEUE, attributes.CHOICE, 0, 0),
            (attributes.PREFILL, attributes.CHOICE, 0, 1),
            (attributes.DECODE, attributes.CHOICE, 1, 4),
            (attributes.VERIFY, attributes.PREFILL, 0, 1),
            (attributes.STEP, attributes.PREFILL, 0, 1),
            *[(attributes.VERIFY, attributes.DECODE, n, n + 1) for n in (1, 2, 3)],
            *[(attributes.STEP, attributes.DECODE, n, n + 1) for n in (1, 2, 3)],
        ]
    )
    assert [span.last for span in spans] == [False] * (len(spans) - 1) + [True]


def test_text_is_made_after_each_step_and_the_choice_ends_with_its_last() -> None:
    """Whenever the clock is read here, it has gone on for a thousandth of a second."""
    ticks = count(1)
    rig = Rig(
        Limits(),
        timed=lambda other: TimedDetokenizer(other, lambda: rig.now + next(ticks) / 1000),
    )
    ask(rig, max_tokens=3)
    rig.step()
    rig.says(DRAFTER)
    rig.tail(1, 1, 5)
    rig.step()
    spans = told(rig)
    texts = named(spans, attributes.DETOKENISE)
    times = [(span.start, span.end) for span in texts]
    assert times == [pytest.approx((0.011, 0.012)), pytest.approx((0.023, 0.025))]
    assert [span.parent for span in texts] == [attributes.DECODE] * 2
    assert [span.attributes[attributes.EMITTED] for span in texts] == [1, 2]
    assert [span.attributes[attributes.ROUND] for span in texts] == [1, 2]
    for name in (attributes.DECODE, attributes.CHOICE):
        [whole] = named(spans, name)
        assert whole.start <= texts[0].start
        assert texts[-1].end == whole.end
    assert not any(span.key for span in texts)


def test_a_round_says_what_became_of_its_drafts() -> None:
    rig = Rig(Limits())
    ask(rig, max_tokens=20)
    rig.step()
    rig.says(DRAFTER)
    rig.tail(1, 1, 5, 80)
    rig.step()
    rig.step()
    first, second, third = named(told(rig), attributes.VERIFY)
    assert first.attributes == {
        attributes.ROUND: 1,
        attributes.DRAFTED: 0,
        attributes.ACCEPTED: 0,
        attributes.EMITTED: 1,
        attributes.PLAIN_REASON: "prefill",
        attributes.DRAFTER: "drafter-10",
        attributes.EPOCH: 1,
    }
    assert second.attributes[attributes.DRAFTED] == 2
    assert second.attributes[attributes.ACCEPTED] == 1
    assert second.attributes[attributes.EMITTED] == 2
    assert attributes.PLAIN_REASON not in second.attributes
    assert third.attributes[attributes.PLAIN_REASON] == "late"


def test_a_choice_says_in_the_end_what_all_its_rounds_brought() -> None:
    rig = Rig(Limits())
    ask(rig, max_tokens=4)
    rig.step()
    rig.says(DRAFTER)
    rig.tail(1, 1, 5, 6)
    rig.step()
    [choice] = named(told(rig), attributes.CHOICE)
    assert choice.attributes == {
        attributes.CHOICE_INDEX: 0,
        attributes.INPUT_TOKENS: 3,
        attributes.OUTPUT_TOKENS: 4,
        attributes.CACHED_TOKENS: 0,
        attributes.ROUNDS: 2,
        attributes.DRAFTED: 2,
        attributes.ACCEPTED: 2,
        attributes.PLAIN_ROUNDS: 1,
        attributes.EPOCH: 1,
        attributes.PREEMPTIONS: 0,
        attributes.END: "length",
    }


def test_a_step_belongs_to_one_trace_and_is_linked_with_the_others() -> None:
    rig = Rig()
    rig.submit(1, max_tokens=9)  # not traced
    ask(rig, 2, OURS, max_tokens=9)
    ask(rig, 3, OTHER, max_tokens=9)
    rig.step()
    told(rig)
    rig.step()
    spans = told(rig)
    [step] = named(spans, attributes.STEP)
    assert (step.context, step.scope, step.attributes[attributes.STEP_ROWS]) == (OURS, 2, 3)
    assert step.links == ((OTHER, (3, attributes.CHOICE)),)
    verified = named(spans, attributes.VERIFY)
    assert [span.scope for span in verified] == [2, 3]
    assert [span.links for span in verified] == [((OURS, (2, step.key)),)] * 2


def test_steps_have_keys_of_their_own() -> None:
    rig = Rig()
    ask(rig, max_tokens=9)
    for _ in range(4):
        rig.step()
    keys = [span.key for span in named(told(rig), attributes.STEP)]
    assert len(set(keys)) == len(keys) == 4


def test_every_choice_of_a_request_is_a_scope_of_its_own() -> None:
    rig = Rig()
    ask(rig, choices=3, max_tokens=1)
    rig.step()
    choices = named(told(rig), attributes.CHOICE)
    assert [span.scope for span in choices] == [1, 2, 3]
    assert [span.attributes[attributes.CHOICE_INDEX] for span in choices] == [0, 1, 2]


@pytest.mark.parametrize("trace", ["", "junk", f"00-{'0' * 32}-{'1' * 16}-01", "00-1-1-00"])
def test_of_what_is_not_traced_nothing_is_recorded(trace: str) -> None:
    rig = Rig(Limits())
    rig.submit(trace=trace, max_tokens=4)
    rig.run(6)
    assert told(rig) == []


def test_a_choice_that_waits_in_vain_was_in_the_queue_all_the_time() -> None:
    rig = Rig(max_running=1)
    rig.submit(1, max_tokens=9)
    ask(rig, 2, max_tokens=9)
    rig.step()
    rig.hear(FRONT, Abort(2, "enough"))
    spans = told(rig)
    assert shape(spans) == [
        (attributes.QUEUE, attributes.CHOICE, 0, 1),
        (attributes.CHOICE, "", 0, 1),
    ]
    assert spans[1].attributes[attributes.END] == "abort"


def test_an_abort_in_mid_prompt_ends_the_prefill() -> None:
    rig = Rig(max_chunk=16)
    ask(rig, tokens=tuple(range(1, 31)), max_tokens=2)
    rig.step()
    rig.hear(FRONT, Abort(1, "enough"))
    assert shape(told(rig)) == [
        (attributes.QUEUE, attributes.CHOICE, 0, 0),
        (attributes.PREFILL, attributes.CHOICE, 0, 1),
        (attributes.CHOICE, "", 0, 1),
    ]


def test_a_front_door_that_goes_ends_the_spans_of_its_choices() -> None:
    rig = Rig()
    ask(rig, max_tokens=9)
    rig.step()
    told(rig)
    rig.down(FRONT)
    assert [span.name for span in told(rig)] == [attributes.DECODE, attributes.CHOICE]


def test_a_choice_that_lost_its_pages_was_in_the_queue_twice() -> None:
    rig = Rig(pages=6, context=20)
    ask(rig, 1, OURS, tokens=(1, 2, 3, 4), max_tokens=12)
    ask(rig, 2, OTHER, tokens=(1, 2, 3, 5), max_tokens=12)
    rig.run(40)
    spans = [span for span in told(rig) if span.context == OTHER]
    first, second = named(spans, attributes.QUEUE)
    assert first.end < second.start < second.end
    [choice] = named(spans, attributes.CHOICE)
    assert choice.attributes[attributes.PREEMPTIONS] == 1
    keys = [span.key for span in spans if span.key]
    assert len(set(keys)) == len(keys), "two spans would have one number"


def test_the_drafter_is_told_the_same_context() -> None:
    rig = Rig(Limits())
    ask(rig, max_tokens=9)
    rig.step()
    [sync] = rig.says(DRAFTER)
    assert getattr(sync, "trace", None) == traceparent(OURS)


def happened(span: Span) -> list[tuple[str, str]]:
    """Events of a span, and the reason or the drafter that they name."""
    return [
        (
            each.name,
            str(each.attributes.get(attributes.REASON, each.attributes.get(attributes.DRAFTER))),
        )
        for each in span.events
    ]


def test_a_choice_tells_of_its_drafters_and_of_rounds_without_drafts() -> None:
    """The first drafter drains, the second goes on; what the first still says is stale."""
    rig = Rig(Limits(), Limits())
    ask(rig, max_tokens=6)
    rig.step()
    rig.says(DRAFTER)
    rig.hear(DRAFTER, Heartbeat("draining", 1))
    rig.hear(DRAFTER, DraftTailStream(1, 1, 1, 1, (77,)))
    rig.step()
    rig.down(SECOND)
    rig.run(10)
    [choice] = named(told(rig), attributes.CHOICE)
    found = happened(choice)
    assert found[:6] == [
        (attributes.BOUND, "drafter-10"),
        (attributes.PLAIN_ROUND, "prefill"),
        (attributes.LEFT, "draining"),
        (attributes.STALE_DRAFTS, "other_epoch"),
        (attributes.BOUND, "drafter-11"),
        (attributes.PLAIN_ROUND, "late"),
    ]
    assert found[6] == (attributes.LEFT, "link")
    assert {why for name, why in found[7:] if name == attributes.PLAIN_ROUND}
    times = [each.at for each in choice.events]
    assert times == sorted(times)
    assert choice.start <= times[0] <= times[-1] <= choice.end


def test_a_choice_tells_of_so_many_events_and_no_more() -> None:
    rig = Rig(context=400, pages=200)
    ask(rig, max_tokens=2 * MOST_HAPPENINGS, ignore_eos=True)
    rig.run(3 * MOST_HAPPENINGS)
    [choice] = named(told(rig), attributes.CHOICE)
    assert len(choice.events) == MOST_HAPPENINGS


def test_every_ending_is_there_for_the_log_traced_or_not() -> None:
    rig = Rig(Limits())
    ask(rig, 7, max_tokens=2)
    rig.submit(8, max_tokens=3)
    rig.run(8)
    first, second = rig.core.record.endings
    assert (first.request, first.choice, first.reason, first.tokens) == (7, 0, "length", 2)
    assert (first.trace, second.trace) == (f"{OURS.trace:032x}", "")
    assert (second.request, second.prompt, second.tokens) == (8, 3, 3)
