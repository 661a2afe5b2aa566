"""`docs/models.md` says what the tests say."""

import re

from engine.models.hosted_trial import TOLERANCE
from orchestrator.config import Config
from orchestrator.models.hub import CODE, FILES
from tests.engine.model_reference import FILE, written


def test_the_tables_are_those_that_the_tests_run_over() -> None:
    text = FILE.read_text(encoding="utf-8")
    assert text == written(text), "run python -m tests.engine.model_reference"


def test_every_setting_that_is_named_exists() -> None:
    text = FILE.read_text(encoding="utf-8")
    named = set(re.findall(r"`((?:[a-z_]+\.)*[a-z_]+): ", text))
    assert named >= {"target", "draft", "trust_remote_code"}
    for path in named:
        value: object = Config()
        for part in path.split("."):
            value = getattr(value, part)


def test_files_and_figures_are_those_of_the_code() -> None:
    text = FILE.read_text(encoding="utf-8")
    for pattern in (*FILES, *CODE):
        assert f"`{pattern}`" in text
    assert f"{TOLERANCE:.0%}".replace("%", " %") in text
