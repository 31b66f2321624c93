"""What a checkpoint proves of a log that a crash has left."""

import pytest

from reput.store_format.derived.after_crash import vouched_for, was_durable
from reput.store_format.derived.checkpoint import Checkpoint


@pytest.mark.parametrize(
    ("physic", "logics", "index", "vouched"),
    [(9000, 8000, 100, 5000), (8000, 9000, 0, 5000), (0, 9000, 0, -3000), (3000, 3000, 0, 0)],
)
def test_three_seconds_before_the_lesser_of_log_and_queues(physic, logics, index, vouched) -> None:
    """StoreCheckpoint.getMinTimestamp; the index is not asked."""
    assert vouched_for(Checkpoint(physic, logics, index)) == vouched


@pytest.mark.parametrize(("timestamp", "durable"), [(8999, True), (9000, False), (9001, False)])
def test_a_record_was_durable_that_is_older_than_the_logs_time(timestamp, durable) -> None:
    assert was_durable(timestamp, Checkpoint(9000, 1, 1)) == durable


def test_without_a_checkpoint_any_record_may_have_been() -> None:
    assert was_durable(1 << 62, None)
    assert not was_durable(0, Checkpoint())
