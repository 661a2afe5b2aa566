"""Rows share an attention call where padding is cheaper than another one."""

from engine.batch import Row
from engine.grouping import KEYS_AT_ONCE, QUERIES_AT_ONCE, Group, Piece, cut, group


def row(start: int, length: int) -> Row:
    return Row([0] * length, start, (), 0)


def groups(*rows: Row) -> list[Group]:
    return group(list(cut(rows)))


def test_similar_rows_share_a_call() -> None:
    assert groups(row(310, 1), row(290, 2), row(300, 1)) == [
        Group([Piece(3, 300, 1, ()), Piece(0, 310, 1, ()), Piece(1, 290, 2, ())], 2, 311)
    ]


def test_a_call_gathers_no_more_than_the_caches_hold() -> None:
    found = groups(*[row(299, 1)] * 20)
    assert [len(each.pieces) for each in found] == [8, 8, 4]
    assert 8 * 300 <= KEYS_AT_ONCE < 9 * 300


def test_a_short_row_is_not_padded_to_a_long_one() -> None:
    sizes = [(each.keys, len(each.pieces)) for each in groups(row(20, 1), row(3000, 1), row(30, 1))]
    assert sizes == [(31, 2), (3001, 1)]


def test_a_prefill_chunk_stays_alone() -> None:
    queries = [each.queries for each in groups(row(500, 1), row(400, 100), row(510, 1))]
    assert queries == [1, 100]


def test_a_long_row_is_cut_so_that_each_piece_reads_its_own_keys() -> None:
    pieces = list(cut([row(7, 3), row(40, 2 * QUERIES_AT_ONCE + 5)]))
    assert [(each.first, each.start, each.length) for each in pieces] == [
        (0, 7, 3),
        (3, 40, QUERIES_AT_ONCE),
        (3 + QUERIES_AT_ONCE, 40 + QUERIES_AT_ONCE, QUERIES_AT_ONCE),
        (3 + 2 * QUERIES_AT_ONCE, 40 + 2 * QUERIES_AT_ONCE, 5),
    ]


def test_no_token_is_lost_or_doubled() -> None:
    rows = [row(5 * i, 1 + 37 * i % 300) for i in range(20)]
    tokens = [
        token
        for each in groups(*rows)
        for piece in each.pieces
        for token in range(piece.first, piece.first + piece.length)
    ]
    assert sorted(tokens) == list(range(sum(len(each.tokens) for each in rows)))
