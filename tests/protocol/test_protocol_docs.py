"""`docs/protocol.md` says what the code does."""

from tests.protocol.state_tables import FILE, tables, written


def test_the_state_tables_are_those_that_the_code_makes() -> None:
    text = FILE.read_text(encoding="utf-8")
    assert text == written(text), "run python -m tests.protocol.state_tables"


def test_no_event_is_without_an_outcome() -> None:
    """Where a cell is empty the event cannot be: without a link there is nothing to be read, refused or silent."""
    for name, table in tables().items():
        assert table.count("|") > 20, name
    assert "peer fault" in tables()["tail"]
    assert "**no link**" in tables()["dialler"]
