"""`docs/faults.md` names tests that exist."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_tests_that_hold_a_fault_off_exist() -> None:
    named = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", (ROOT / "docs" / "faults.md").read_text())
    assert len(named) > 30
    for file, name in named:
        source = (ROOT / file).read_text()
        assert re.search(rf"^(def|class) {name}\b", source, re.MULTILINE), (file, name)
