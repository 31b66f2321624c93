"""What a checkpoint proves of a log that a crash has left."""

from reput.store_format.derived.after_crash import vouched_for, was_durable
from reput.store_format.derived.checkpoint import Checkpoint


def test_a_record_was_durable_three_seconds_before_the_lesser_of_log_and_queues() -> None:
    # StoreCheckpoint.getMinTimestamp; the index is not asked.
    for physic, logics, index, vouched in [(9000, 8000, 100, 5000), (8000, 9000, 0, 5000),
        (0, 9000, 0, -3000), (3000, 3000, 0, 0)]:  # fmt: skip
        assert vouched_for(Checkpoint(physic, logics, index)) == vouched
    for timestamp, durable in [(8999, True), (9000, False), (9001, False)]:
        assert was_durable(timestamp, Checkpoint(9000, 1, 1)) == durable
    assert was_durable(1 << 62, None)
    assert not was_durable(0, Checkpoint())
