"""Compiling beside the loop: it asks, is woken, and finds what came of it."""

import queue

import pytest

from protocol.messages import Grammar
from verifier.compiler import DirectCompiler, ThreadCompiler, refuse
from verifier.matcher import Compiled, Matcher, Unchecked
from verifier.vetting import VettingError

GOOD, BAD, LOST = Grammar("regex", "a"), Grammar("regex", "("), Grammar("regex", "lost")


class Gate:
    """Compiles when it is let through; good grammars become matchers that nobody uses."""

    def __init__(self) -> None:
        self.opened: queue.SimpleQueue[None] = queue.SimpleQueue()

    def compile(self, grammar: Grammar) -> Compiled | str:
        self.opened.get(timeout=60)
        if grammar == LOST:
            raise VettingError("nobody can tell")
        return "unclosed group" if grammar == BAD else _matcher

    def open(self) -> None:
        self.opened.put(None)


def _matcher() -> Matcher:
    raise AssertionError("nobody follows it")


def test_a_loop_goes_on_while_a_grammar_is_compiled() -> None:
    gate, woken = Gate(), queue.SimpleQueue[None]()
    compiler = ThreadCompiler(gate.compile, lambda: woken.put(None))
    for grammar in (GOOD, BAD, LOST):
        compiler.ask(grammar)
    assert compiler.ready() == []
    expected = {GOOD: _matcher, BAD: "unclosed group", LOST: Unchecked("nobody can tell")}
    for grammar, result in expected.items():
        gate.open()
        woken.get(timeout=60)
        [(which, found)] = compiler.ready()
        assert (which, found, type(found)) == (grammar, result, type(result))
    compiler.close()


def test_nobody_is_woken_after_the_end() -> None:
    gate, woken = Gate(), queue.SimpleQueue[None]()
    left: list[str] = []
    compiler = ThreadCompiler(gate.compile, lambda: woken.put(None), lambda: left.append("left"))
    compiler.ask(GOOD)
    compiler.ask(BAD)
    gate.open()
    woken.get(timeout=60)
    gate.open()
    woken.get(timeout=60)
    assert left == []
    compiler.close()
    assert left == ["left"]
    assert len(compiler.ready()) == 2
    assert woken.empty()


@pytest.mark.parametrize("text", ["a", "("])
def test_a_direct_one_compiles_at_once(text: str) -> None:
    compiler = DirectCompiler(refuse)
    compiler.ask(Grammar("regex", text))
    assert compiler.ready() == [(Grammar("regex", text), "this verifier serves no grammars")]
    assert compiler.ready() == []
