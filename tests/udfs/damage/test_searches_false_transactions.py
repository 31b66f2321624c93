"""A message that a queue misses, and a record that only its transaction type keeps out of it."""

import pytest

from reput.store_format.log.rules import RecordRules
from reput.udfs.damage.searches import FindFalseTransactions, Missed
from tests.damaged import SEGMENT, Damaged, damaged, messages
from tests.udfs.damage.logs import rows_of, stored

RULES = RecordRules(True, True)
SYS_FLAG, PREPARED, COMMIT = 39, 2, 3  # the flag's last byte, and bits in it
OF = 20  # the record that is looked for: position 6 of queue 2


def log_with(*flips: tuple[int, int, int]) -> Damaged:
    log = damaged(messages(60))
    for flip in flips:
        log.flip(*flip)
    return log


def found(log: Damaged, *missed: Missed, segment: int = 0) -> list[tuple[int, int, int]]:
    storage, segments = stored(log)
    task = FindFalseTransactions(storage, segments, SEGMENT, RULES, missed)
    return [tuple(row.values()) for row in rows_of(task, segment)]


def missed(log: Damaged, topic: str = "T", queue: int = 2, offset: int = 6, after: int = OF - 3,
           before: int = OF + 3) -> Missed:  # fmt: skip
    return Missed(topic, queue, offset, log.places[after], log.places[before])


@pytest.mark.parametrize(
    ("flips", "flag"), [((PREPARED,), 4), ((PREPARED, COMMIT), 12), ((COMMIT,), None), ((), None)]
)
def test_prepared_and_rolled_back_records_are_in_no_queue(
    flips: tuple[int, ...], flag: int | None
) -> None:
    log = log_with(*((OF, SYS_FLAG, bit) for bit in flips))
    wanted = [] if flag is None else [(log.places[OF], log.size(OF), flag)]
    assert found(log, missed(log)) == wanted


@pytest.mark.parametrize(
    ("asked", "is_found"),
    [
        ({}, True), ({"topic": "U"}, False), ({"queue": 1}, False), ({"offset": 7}, False),
        ({"after": OF - 1, "before": OF + 1}, True), ({"after": OF}, False),
        ({"before": OF}, False),
    ],
)  # fmt: skip
def test_it_must_be_the_missed_message_between_its_neighbours(
    asked: dict[str, int], is_found: bool
) -> None:
    log = log_with((OF, SYS_FLAG, PREPARED))
    assert bool(found(log, missed(log, **asked))) == is_found  # type: ignore[arg-type]


def test_each_message_that_is_missed_is_found_once_though_the_stretches_overlap() -> None:
    log = log_with(*((n, SYS_FLAG, PREPARED) for n in (OF - 1, OF, OF + 1)))
    others = [missed(log, queue=n, offset=each) for n, each in ((0, 7), (1, 6))]
    places = [place for place, *_ in found(log, missed(log), *others)]
    assert places == log.places[OF - 1 : OF + 2]


def test_damage_before_it_hides_nothing() -> None:
    log = log_with((OF - 2, 4, 0), (OF, SYS_FLAG, PREPARED))
    assert [place for place, *_ in found(log, missed(log))] == [log.places[OF]]


def test_each_segment_has_its_own() -> None:
    last = max(n for n, place in enumerate(damaged(messages(60)).places) if place < SEGMENT)
    log = log_with(*((n, SYS_FLAG, PREPARED) for n in (last, last + 1)))
    asked = [missed(log, queue=n % 3, offset=n // 3, after=last - 3, before=last + 4)
             for n in (last, last + 1)]  # fmt: skip
    for segment in (0, 1):
        places = [place for place, *_ in found(log, *asked, segment=segment)]
        assert places == [log.places[last + segment]]
