"""A log's splits before it is written anew: each record's new size, and what each queue has."""

from typing import Any

import pyarrow as pa
import pytest

from reput.store_format.log.segments import Splits
from reput.store_format.rewrite.changes import Changes
from reput.store_format.rewrite.placing import EarlierLog
from reput.udfs.convert.measure import (
    MEASURED,
    MeasureSplits,
    measured_order,
    measured_puts,
    measured_records,
    split_queues,
)
from reput.udfs.staging import Staging
from tests.logs.damage import record_places
from tests.logs.encoder import Message, build_log, encode
from tests.memory_storage import MemoryStorage
from tests.udfs.table.parts import log_of

SEGMENT = 4096
Row = dict[str, Any]
# topic T has queues 0 and 1, topic Drop one; record 4 is prepared, and 7 is a commit
MESSAGES = [
    Message("Drop" if n % 3 == 2 else "T", queue_id=n % 2, queue_offset=n, body=b"b" * n,
            store_timestamp=50 - n, sys_flag={4: 0x4, 7: 0x8}.get(n, 0)) for n in range(9)
]  # fmt: skip
SIZES = [len(encode(message, 0)) for message in MESSAGES]
PLACES = record_places(build_log(MESSAGES, SEGMENT))
OF_T = [0, 1, 3, 4, 6, 7]


def measured(changes: Changes, splits: int = 1, messages: list[Message] = MESSAGES, **more: Any
             ) -> tuple[Staging, list[Row]]:  # fmt: skip
    log = log_of(messages, SEGMENT)
    staging = Staging(MemoryStorage(), "s")
    cut = Splits(list(log.segments), -(-SEGMENT // splits), SEGMENT)
    groups = tuple(range(splits))
    task = MeasureSplits(log.storage, staging, cut, log.rules, range(splits), groups, {}, changes,
                         **more)  # fmt: skip
    ids = pa.RecordBatch.from_pydict({"id": list(groups)})
    batches = list(task(iter([ids])))
    assert all(batch.schema == MEASURED for batch in batches)
    return staging, [row for batch in batches for row in batch.to_pylist()]


def taken(staging: Staging, row: Row) -> list[tuple[int, int]]:
    """(offset in the split, new size) of each record that is taken."""
    found: list[tuple[int, int]] = measured_records(staging, row["run"], row["taken"]).tolist()
    return found


def test_each_queue_has_its_sums_and_what_orders_several_logs_is_written_if_asked_for() -> None:
    staging, (row,) = measured(Changes(dropped=("Drop",)))
    queues = {(q["topic"], q["queue_id"]): q for q in split_queues(staging, row["run"])}
    names = ("records", "taken", "bytes", "positions", "counted", "least", "greatest", "sys_flags")
    assert {key: [q[name] for name in names] for key, q in queues.items()} == {
        ("T", 0): [3, 3, SIZES[0] + SIZES[4] + SIZES[6], 2, 2, 0, 6, 0x4],
        ("T", 1): [3, 3, SIZES[1] + SIZES[3] + SIZES[7], 3, 3, 1, 7, 0x8],
        ("Drop", 0): [2, 0, 0, 2, 0, 2, 8, 0],
        ("Drop", 1): [1, 0, 0, 1, 0, 5, 5, 0],
    }
    staging, (row,) = measured(Changes(), ordered=True)
    order = measured_order(staging, row["run"], row["taken"])
    number = {(q["topic"], q["queue_id"]): q["number"]
              for q in split_queues(staging, row["run"])}  # fmt: skip
    # a prepared record has no position
    assert order.tolist() == [(50 - n, int(n != 4)) for n in range(len(MESSAGES))]
    assert measured_puts(staging, row["run"], order).tolist() == [
        (number[m.topic, m.queue_id], n, 1) for n, m in enumerate(MESSAGES) if n != 4
    ]
    files = measured(Changes())[0].storage.list("s")
    assert not any(file.name.endswith(".order") for file in files)


@pytest.mark.parametrize("splits", [5, 8, 30])
def test_a_record_is_in_the_split_that_it_begins_in_counted_from_its_start(splits: int) -> None:
    staging, rows = measured(Changes(dropped=("Drop",)), splits)
    size = -(-SEGMENT // splits)
    found = [(row["split"], *each) for row in rows if row["taken"] for each in taken(staging, row)]
    wanted = [(PLACES[n] // size, PLACES[n] % size, SIZES[n]) for n in OF_T]
    assert found == wanted


def test_what_an_earlier_log_has_is_left_out_and_half_messages_that_do_not_wait() -> None:
    other = log_of(MESSAGES[:4], SEGMENT)
    end = PLACES[3]  # of the other log, before its last record
    earlier = (EarlierLog(other.storage, other.segments, end),)
    staging, (row,) = measured(Changes(merges=True), earlier=earlier)
    assert [at for at, _ in taken(staging, row)] == PLACES[3:]
    assert sum(queue["shared"] for queue in split_queues(staging, row["run"])) == 3
    half = [Message("RMQ_SYS_TRANS_HALF_TOPIC", queue_offset=n) for n in range(3)]
    places = record_places(build_log(half, SEGMENT))
    staging, (row,) = measured(Changes(dropped=("X",)), messages=half, waiting=(places[1],))
    assert [at for at, _ in taken(staging, row)] == [places[1]]
    assert measured(Changes(), messages=half)[1][0]["taken"] == 3
