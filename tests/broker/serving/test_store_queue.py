"""One queue of a served store: its ends, its entries, the position at a time."""

from pathlib import Path

import pytest

from reput.broker.serving.store import ServedQueue
from reput.store_format.derived.queue_reader import Boundary
from reput.store_format.release.profiles import profile
from tests.broker.serving.served import FIXED, STEP, T0, message, served
from tests.jobs.sockets.asked import Asked

SIZE = FIXED + 1 + 9
MANY = 25  # 20 entries are in the first file of the queue


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Asked:
    """The messages 0, 2, 4 ... of the log are in queue 0, and 1, 3, 5 ... in queue 1."""
    made = (message(n, queue_id=n % 2) for n in range(2 * MANY))
    return served(tmp_path_factory.mktemp("store"), made)


def queue(asked: Asked, limit: int | None = None, release: str = "5.3.3") -> ServedQueue:
    store = asked.broker.store
    entries = store.opened.queue("T", 0, False)
    end = store.log.end if limit is None else limit
    return ServedQueue(entries, store.log, profile(release), end)


@pytest.mark.parametrize(
    ("limit", "end"),
    [(0, 0), (SIZE - 1, 0), (SIZE, 1), (2 * SIZE, 1), (3 * SIZE - 1, 1), (3 * SIZE, 2)],
)
def test_a_queue_ends_with_the_last_record_before_the_limit(
    store: Asked, limit: int, end: int
) -> None:
    cut = queue(store, limit)
    assert (cut.minimum, cut.maximum) == (0, end)
    assert cut.some(0, 10).positions.tolist() == list(range(end))
    assert len(cut.some(end, 1)) == 0


def test_entries_are_of_one_file_and_never_past_the_end(store: Asked) -> None:
    whole = queue(store)
    assert whole.maximum == MANY
    assert whole.some(18, 5).positions.tolist() == [18, 19]
    assert whole.some(20, 50).positions.tolist() == [20, 21, 22, 23, 24]
    assert whole.some(3, 1).places.tolist() == [6 * SIZE]
    assert len(whole.some(MANY, 1)) == 0
    assert len(whole.some(3, 0)) == 0


def test_times_are_those_of_the_records(store: Asked) -> None:
    whole = queue(store)
    assert whole.earliest_time() == T0
    assert whole.time_of(whole.some(3, 2)) == T0 + 6 * STEP
    assert whole.time_of(whole.some(MANY, 1)) == -1
    assert queue(store, 0).earliest_time() == -1


@pytest.mark.parametrize(
    ("time", "lower", "upper"),
    [
        (T0 - 1, 0, 0), (T0, 0, 0), (T0 + 1, 1, 0), (T0 + 2 * STEP, 1, 1),
        (T0 + 48 * STEP, 24, 24), (T0 + 48 * STEP + 1, 25, 24),
    ],
)  # fmt: skip
def test_a_time_between_two_messages_is_at_the_one_after_or_before_it(
    store: Asked, time: int, lower: int, upper: int
) -> None:
    """From 5.1.1; past the end LOWER is the queue's maximum, before the start both are 0."""
    whole = queue(store)
    assert whole.at_time(time, Boundary.LOWER) == lower
    assert whole.at_time(time, Boundary.UPPER) == upper
    assert queue(store, release="5.1.1").at_time(time, Boundary.UPPER) == lower  # no boundary yet


def test_at_a_limit_a_late_time_is_as_if_the_files_ended_there(store: Asked) -> None:
    cut = queue(store, 5 * SIZE)  # positions 0, 1 and 2
    late = T0 + 40 * STEP
    assert cut.at_time(late, Boundary.LOWER) == 3
    assert cut.at_time(late, Boundary.UPPER) == 2
    for number in (4, 6):  # the last one's own time, and that of the first one beyond the limit
        assert cut.at_time(T0 + number * STEP, Boundary.UPPER) == 2
    assert queue(store, 0).at_time(late, Boundary.LOWER) == 0


def test_the_first_position_is_of_the_first_record_that_the_log_still_has(tmp_path: Path) -> None:
    asked = served(tmp_path, (message(n, size=300 - FIXED - 1) for n in range(15)))
    segment = (4096 - 8) // 300  # 13 records, and a BLANK
    (tmp_path / "commitlog" / f"{0:020d}").unlink()
    asked.broker.store.refresh()
    found = asked.broker.store.queue("T", 0)
    assert found is not None
    assert (found.minimum, found.maximum) == (segment, 15)
    assert found.earliest_time() == T0 + segment * STEP
