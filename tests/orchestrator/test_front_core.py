"""Stories of the front door: who is asked, what clients hear when a verifier refuses, dies or drains."""

from orchestrator.front.messages import Failure, Query
from protocol.messages import (
    Done,
    Emit,
    Ending,
    Grammar,
    Heartbeat,
    Refuse,
    Report,
    Sampling,
    Submit,
)
from protocol.process import Drain
from tests.orchestrator.fakes import Rig, echo, query, refusing, silent


def test_a_query_is_answered_in_order_to_its_last_done() -> None:
    rig = Rig(echo)
    ticket = rig.ask(query(1, 2, 3))
    rig.run()
    emits = [reply for reply in rig.heard[ticket] if isinstance(reply, Emit)]
    assert [emit.tokens for emit in emits] == [(1, 2), (3,)]
    assert "".join(emit.text for emit in emits) == "<1><2><3>"
    assert isinstance(rig.heard[ticket][-1], Done)
    assert rig.core.idle


def test_every_choice_ends_before_the_query_does() -> None:
    rig = Rig(echo)
    ticket = rig.ask(query(1, choices=3))
    rig.run()
    done = [reply.choice for reply in rig.heard[ticket] if isinstance(reply, Done)]
    assert done == [0, 1, 2]
    assert ticket not in rig.core


def test_without_a_verifier_there_is_a_clean_refusal() -> None:
    rig = Rig()
    ticket = rig.ask(query(1))
    rig.run()
    assert rig.failure(ticket) == Failure(503, "no verifier is there", code="no_verifier")
    assert not rig.node.status().ready


def test_limits_are_known_from_the_verifiers() -> None:
    status = Rig(echo).node.status()
    assert (status.ready, status.context, status.vocabulary, status.verifiers) == (True, 64, 300, 1)


def test_verifiers_are_known_by_what_they_said_of_themselves() -> None:
    rig = Rig(silent)
    rig.ask(query(1, choices=3))
    rig.run()
    link = next(iter(rig.verifiers["verifier-0"].endpoint.links))
    reports = [Report(f"{role}-0", role, 1) for role in ("verifier", "drafter")]
    rig.verifiers["verifier-0"].say(link, *reports)
    rig.run(1.0)
    member, drafter = rig.node.status().members
    assert (drafter.role, drafter.node_id) == ("drafter", "drafter-0")
    assert (member.role, member.node_id, member.choices) == ("verifier", "verifier-0", 3)
    assert (member.limits.context, member.fingerprint.vocabulary) == (64, 300)


def test_everything_that_was_asked_for_is_asked_of_the_verifier() -> None:
    rig = Rig(echo)
    sampling = Sampling(0.5, bad_words=((1,),), logit_bias=((2, 3.0),))
    asked = Query((1, 2), Ending(3, stop=("x",)), sampling, 2, 4, 5, Grammar("regex", "a"))
    ticket = rig.ask(asked)
    rig.run()
    assert rig.verifiers["verifier-0"].submits == [asked.submit(ticket)]
    submit = asked.submit(ticket)
    assert (submit.tokens, submit.ending, submit.sampling) == (asked.tokens, asked.ending, sampling)
    assert (submit.choices, submit.logprobs, submit.prompt_logprobs) == (2, 4, 5)
    assert submit.grammar == Grammar("regex", "a")


def test_requests_spread_over_two_verifiers() -> None:
    rig = Rig(silent, silent)
    for number in range(20):
        rig.ask(query(number))
    rig.run()
    assert [len(verifier.submits) for verifier in rig.verifiers.values()] == [10, 10]


def test_prompts_with_a_shared_beginning_meet_again() -> None:
    rig = Rig(echo, echo, prefix_page=4)
    for number in range(6):
        rig.ask(query(*range(100, 116), number))
        rig.ask(query(*range(200, 216), number))
        rig.run()
    prefixes = [{submit.tokens[0] for submit in each.submits} for each in rig.verifiers.values()]
    assert sorted(prefixes, key=min) == [{100}, {200}]


def test_a_crowd_is_not_worth_a_shared_prefix() -> None:
    rig = Rig(silent, silent, prefix_page=4, prefix_slack=2)
    for number in range(8):
        rig.ask(query(*range(100, 116), number))
        rig.run()
    counts = [len(verifier.submits) for verifier in rig.verifiers.values()]
    assert max(counts) - min(counts) <= 2


def one_word(submit: Submit) -> list[Emit]:
    """Begins an answer and never ends it."""
    return [Emit(submit.request, 0, (1,), "one")]


def test_a_lost_verifier_fails_its_requests_and_only_those() -> None:
    rig = Rig(one_word, one_word)
    tickets = [rig.ask(query(number)) for number in range(2)]
    rig.run()
    lost = rig.verifiers["verifier-0"].submits[0].request
    rig.kill("verifier-0")
    rig.run(4.0)
    assert [type(reply) for reply in rig.heard[lost]] == [Emit, Failure]
    assert [len(rig.heard[ticket]) for ticket in tickets if ticket != lost] == [1]


def test_the_only_verifier_that_is_lost_is_an_error() -> None:
    rig = Rig(silent)
    ticket = rig.ask(query(1))
    rig.run()
    rig.kill("verifier-0")
    rig.run(4.0)
    assert rig.failure(ticket).code == "verifier_lost"


def test_a_request_without_a_word_yet_moves_from_a_lost_verifier_to_another() -> None:
    rig = Rig(silent, echo)
    ticket = rig.ask(query(1, 2))
    rig.run()
    assert len(rig.verifiers["verifier-0"].submits) == 1
    rig.kill("verifier-0")
    rig.run(4.0)
    assert isinstance(rig.heard[ticket][-1], Done)
    assert rig.core.idle


def test_a_verifier_that_comes_back_is_found_again() -> None:
    rig = Rig(echo)
    rig.kill("verifier-0")
    rig.run(4.0)
    assert not rig.node.status().ready
    rig.start("verifier-0", echo)
    rig.run(1.0)
    ticket = rig.ask(query(5))
    rig.run()
    assert isinstance(rig.heard[ticket][-1], Done)


def test_a_client_that_leaves_is_told_to_the_verifier_once() -> None:
    rig = Rig(silent)
    ticket = rig.ask(query(1))
    rig.run()
    rig.node.abort(ticket)
    rig.node.abort(ticket)
    rig.run()
    assert [abort.request for abort in rig.verifiers["verifier-0"].aborts] == [ticket]
    assert rig.core.idle


def test_a_client_that_leaves_before_the_verifier_heard_of_it_costs_nothing() -> None:
    rig = Rig(silent)
    ticket = rig.ask(query(1))
    rig.node.abort(ticket)
    rig.run()
    verifier = rig.verifiers["verifier-0"]
    assert (verifier.submits, verifier.aborts) == ([], [])


def test_words_after_an_abort_are_dropped_and_counted() -> None:
    rig = Rig(echo)
    ticket = rig.ask(query(1, 2, 3))
    rig.node.turn()  # the submission leaves
    rig.node.abort(ticket)
    rig.run()
    assert rig.heard[ticket] == []
    assert rig.core.counters["replies_unknown"] > 0


def test_a_full_verifier_sends_the_query_to_the_other() -> None:
    rig = Rig(refusing("full"), echo)
    tickets = [rig.ask(query(number)) for number in range(4)]
    rig.run()
    assert all(isinstance(rig.heard[ticket][-1], Done) for ticket in tickets)


def test_when_all_are_full_the_client_hears_it() -> None:
    rig = Rig(refusing("full"), refusing("full"))
    ticket = rig.ask(query(1))
    rig.run()
    assert rig.failure(ticket).status == 429
    assert [len(verifier.submits) for verifier in rig.verifiers.values()] == [1, 1]


def test_a_grammar_that_nobody_could_check_may_come_again() -> None:
    rig = Rig(refusing("unchecked", "grammar"), refusing("unchecked", "grammar"))
    ticket = rig.ask(query(1))
    rig.run()
    assert rig.failure(ticket).status == 503
    assert [len(verifier.submits) for verifier in rig.verifiers.values()] == [1, 1]


def test_an_invalid_query_is_nobody_elses_business() -> None:
    rig = Rig(
        refusing("invalid", "tokens", "token 999"), refusing("invalid", "tokens", "token 999")
    )
    ticket = rig.ask(query(1))
    rig.run()
    assert rig.failure(ticket) == Failure(400, "token 999", "prompt", "invalid")
    assert sum(len(verifier.submits) for verifier in rig.verifiers.values()) == 1


def test_an_unknown_refusal_is_no_fault_of_the_client() -> None:
    rig = Rig(refusing("moon"))
    ticket = rig.ask(query(1))
    rig.run()
    assert rig.failure(ticket).status == 503


def test_a_draining_verifier_gets_nothing_new() -> None:
    rig = Rig(echo, echo)
    rig.verifiers["verifier-0"].endpoint.heartbeat = Heartbeat("draining")
    rig.run(2.0)
    for number in range(3):
        rig.ask(query(number))
    rig.run()
    assert [len(each.submits) for each in rig.verifiers.values()] == [0, 3]


def test_more_than_the_limit_is_refused_at_once() -> None:
    rig = Rig(silent, max_requests=2)
    tickets = [rig.ask(query(number)) for number in range(3)]
    rig.run()
    assert rig.failure(tickets[2]).status == 429
    assert len(rig.verifiers["verifier-0"].submits) == 2


def test_a_drain_finishes_what_runs_and_takes_nothing_new() -> None:
    rig = Rig(silent)
    first = rig.ask(query(1))
    rig.run()
    rig.node.command(Drain())
    late = rig.ask(query(2))
    rig.run()
    assert rig.failure(late).code == "draining"
    assert not rig.node.stopped
    verifier = rig.verifiers["verifier-0"]
    (link,) = verifier.endpoint.links
    verifier.say(link, Done(first, 0, "stop", 1, 0))
    rig.run()
    assert rig.node.stopped


def test_the_end_of_the_loop_is_heard_by_everybody() -> None:
    rig = Rig(silent)
    waiting = rig.ask(query(1))
    rig.run()
    unread = rig.ask(query(2))
    rig.node.close(Failure(503, "the service is stopping", code="stopping"))
    late = rig.ask(query(3))
    assert [rig.failure(ticket).code for ticket in (waiting, unread, late)] == ["stopping"] * 3
    assert not rig.node.status().alive


def test_a_loop_that_stands_still_is_not_alive() -> None:
    rig = Rig(echo)
    assert rig.node.status().alive
    rig.now += 60
    assert not rig.node.status().alive
    assert not rig.node.status().ready


def test_a_verifier_that_talks_nonsense_harms_nobody() -> None:
    def nonsense(submit: Submit) -> list[Emit | Done | Refuse]:
        return [
            Emit(submit.request, 7, (1,), "no such choice"),
            Emit(submit.request + 99, 0, (1,), "no such request"),
            Refuse(code="odd"),
            Done(submit.request, 0, "stop", 1, 0),
            Done(submit.request, 0, "stop", 1, 0),
        ]

    rig = Rig(nonsense)
    ticket = rig.ask(query(1))
    rig.run()
    assert [type(reply) for reply in rig.heard[ticket]] == [Done]
    assert rig.core.idle
