"""How a role process hears whoever started it, and what two processes call the same tokenizer."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tokenizers import Tokenizer
from tokenizers.models import WordLevel

from protocol.fingerprint import tokenizer_fingerprint
from protocol.process import Command, Drain, Peers, Stop, announce, parse


@pytest.mark.parametrize(
    ("line", "command"),
    [
        ('{"peers": ["tcp://a:1", "tcp://b:2"]}', Peers(("tcp://a:1", "tcp://b:2"))),
        ('{"peers": []}', Peers(())),
        ('{"drain": true}', Drain()),
        ('{"stop": true}\n', Stop()),
        ('{"peers": [1]}', None),
        ('{"peers": "tcp://a:1"}', None),
        ('{"drain": false}', None),
        ('{"drain": "yes"}', None),
        ('["drain"]', None),
        ("drain", None),
        ("", None),
    ],
)
def test_a_line_of_the_parent_is_a_command_or_nothing(line: str, command: Command | None) -> None:
    assert parse(line) == command


def test_the_parent_reads_one_json_line_for_every_state(
    capsys: pytest.CaptureFixture[str],
) -> None:
    announce("ready", node_id="drafter-0", address="tcp://127.0.0.1:5")
    assert json.loads(capsys.readouterr().out) == {
        "state": "ready",
        "node_id": "drafter-0",
        "address": "tcp://127.0.0.1:5",
    }


CHILD = """
import threading
from protocol.process import Control, announce

control, woken = Control(supervised=SUPERVISED, grace=GRACE), threading.Event()
control.on_command(woken.set)
announce("ready")
while True:
    woken.wait()
    woken.clear()
    for command in control.drain():
        announce(repr(command))
        if OBEDIENT and repr(command) == "Stop()":
            raise SystemExit(0)
"""


def child(*, supervised: bool = True, obedient: bool = True, grace: float = 30.0) -> "Child":
    program = CHILD.replace("SUPERVISED", str(supervised)).replace("OBEDIENT", str(obedient))
    return Child(program.replace("GRACE", str(grace)))


class Child:
    """A process with a control, and its pipes."""

    def __init__(self, program: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", program],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            cwd=Path(__file__).parents[2],
        )
        assert self._process.stdin
        assert self._process.stdout
        self._stdin, self._stdout = self._process.stdin, self._process.stdout
        assert self.said() == "ready"

    def __enter__(self) -> "Child":
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()
        self._stdin.close()
        self._stdout.close()

    def said(self) -> str:
        return str(json.loads(self._stdout.readline())["state"])

    def tell(self, line: str) -> None:
        self._stdin.write(line + "\n")
        self._stdin.flush()

    def signal(self) -> None:
        os.kill(self._process.pid, signal.SIGTERM)

    def hang_up(self) -> None:
        self._stdin.close()

    def code(self) -> int:
        return self._process.wait(timeout=20)


def test_commands_of_the_parent_arrive_and_nonsense_is_passed_over() -> None:
    with child() as process:
        process.tell("nonsense")
        process.tell('{"peers": ["tcp://a:1"]}')
        process.tell('{"drain": true}')
        assert (process.said(), process.said()) == ("Peers(addresses=('tcp://a:1',))", "Drain()")
        process.tell('{"stop": true}')
        assert (process.said(), process.code()) == ("Stop()", 0)


def test_the_first_signal_drains_the_second_stops() -> None:
    with child(supervised=False) as process:
        process.signal()
        assert process.said() == "Drain()"
        process.signal()
        assert (process.said(), process.code()) == ("Stop()", 0)


def test_the_third_signal_ends_even_a_process_that_does_not_obey() -> None:
    with child(supervised=False, obedient=False) as process:
        for said in ("Drain()", "Stop()"):
            process.signal()
            assert process.said() == said
        process.signal()
        assert process.code() == 0


def test_a_process_whose_parent_is_gone_stops() -> None:
    with child() as process:
        process.hang_up()
        assert (process.said(), process.code()) == ("Stop()", 0)


def test_a_process_that_does_not_stop_without_its_parent_is_ended_the_hard_way() -> None:
    with child(obedient=False, grace=0.05) as process:
        process.hang_up()
        assert process.code() == 1


# --- the same tokenizer ---------------------------------------------------------------------------------------------


def folder(path: Path, vocabulary: dict[str, int], *added: str) -> Path:
    path.mkdir()
    tokenizer = Tokenizer(WordLevel(vocabulary, unk_token="a"))
    tokenizer.add_tokens(list(added))
    tokenizer.save(str(path / "tokenizer.json"))
    return path


def test_a_tokenizer_is_known_by_its_tokens_and_their_ids(tmp_path: Path) -> None:
    base = {"a": 0, "b": 1, "c": 2}
    same = tokenizer_fingerprint(folder(tmp_path / "base", base))
    others = {
        "shuffled file": (folder(tmp_path / "order", dict(reversed(base.items()))), True),
        "two ids swapped": (folder(tmp_path / "swap", {"a": 0, "b": 2, "c": 1}), False),
        "one token more": (folder(tmp_path / "more", base, "<end>"), False),
        "another word": (folder(tmp_path / "word", {"a": 0, "b": 1, "d": 2}), False),
    }
    assert {name: tokenizer_fingerprint(path) == same for name, (path, _) in others.items()} == {
        name: equal for name, (_, equal) in others.items()
    }


def test_a_folder_without_a_tokenizer_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"has no tokenizer\.json"):
        tokenizer_fingerprint(tmp_path)
