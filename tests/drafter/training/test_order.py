"""Which texts are trained on, and in which batches."""

from drafter.training.order import epoch, frequent, held_out

LENGTHS = [5 + 7 * number % 60 for number in range(300)]


def test_an_epoch_has_every_text_once_but_those_held_out() -> None:
    batches = epoch(LENGTHS, 200, "0/0")
    assert sorted(number for batch in batches for number in batch) == [
        number for number in range(300) if not held_out(number)
    ]
    assert any(held_out(number) for number in range(300))


def test_batches_hold_no_more_than_they_may_with_their_padding() -> None:
    for batch in epoch(LENGTHS, 200, "0/0"):
        assert len(batch) * max(LENGTHS[number] for number in batch) <= 200


def test_epochs_are_in_another_order_and_the_same_again() -> None:
    assert epoch(LENGTHS, 200, "0/1") != epoch(LENGTHS, 200, "0/0") == epoch(LENGTHS, 200, "0/0")


def test_a_text_that_is_longer_than_a_batch_is_one() -> None:
    assert [1] in epoch([9, 1000, 9], 200, "0")


def test_the_vocabulary_is_the_most_frequent_ids_and_of_equals_the_lowest() -> None:
    assert frequent([[7, 7, 3], [3, 9]], 3, 12) == [3, 7, 9]
    assert frequent([[7, 7, 3], [3, 9]], 5, 12) == [0, 1, 3, 7, 9]
