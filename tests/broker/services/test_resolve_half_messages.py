"""Transactions and delays, as records of a real broker show them (golden broker_clean)."""

from pathlib import Path

import pytest

from reput.store_format.layouts import SYS_TRANSACTION_COMMIT
from reput.store_format.log.record import Record
from reput.store_format.message.message import OP_TOPIC, SCHEDULE_TOPIC, Message, parse_properties
from tests import golden_stores
from tests.broker.services.preparing import Transactions
from tests.broker.writer.stores import as_message, open_writer, stored_records


@pytest.fixture(scope="module")
def broker_records() -> list[Record]:
    return list(stored_records(golden_stores.unpack("broker_clean_5.3.3").input / "commitlog"))


def only_place_differs(one: Record, other: Record) -> bool:
    nowhere = {"queue_offset": 0, "physical_offset": 0, "prepared_offset": 0, "store_timestamp": 0,
               "body_at": 0}  # fmt: skip
    return one._replace(**nowhere) == other._replace(**nowhere)


def last_record(root: Path) -> Record:
    return list(stored_records(root / "commitlog"))[-1]


def test_a_commit_is_the_brokers(broker_records: list[Record], tmp_path: Path) -> None:
    by_place = {record.physical_offset: record for record in broker_records}
    commits = [r for r in broker_records if r.transaction == SYS_TRANSACTION_COMMIT]
    assert len(commits) > 5
    for number, commit in enumerate(commits[:8]):
        half = by_place[commit.prepared_offset]
        root = tmp_path / str(number)
        with open_writer(root, mappedFileSizeCommitLog=1 << 20) as writer:
            writer.append(Message("Before", b""))
            at = writer.put(writer.encoder.draft(as_message(half))).physical_offset
            Transactions(writer).commit(at)
        _, _, made, op = stored_records(root / "commitlog")
        assert only_place_differs(made, commit)
        assert made.prepared_offset == at
        assert (op.topic, op.body) == (OP_TOPIC, b"0,")
        assert op.properties == b"WAIT\x01true\x02TAGS\x01d\x02"


def test_a_delayed_message_is_the_brokers(broker_records: list[Record], tmp_path: Path) -> None:
    delayed = [r for r in broker_records if r.topic == SCHEDULE_TOPIC]
    # those that a consumer sent back were given further properties on their way
    delayed = [r for r in delayed if b"RETRY" not in r.properties]
    assert len(delayed) > 10
    for number, record in enumerate(delayed[:10]):
        properties = parse_properties(record.properties)
        message = as_message(record)
        message.topic, message.queue_id = (
            properties.pop("REAL_TOPIC"), int(properties.pop("REAL_QID")))  # fmt: skip
        message.delay_level = int(properties.pop("DELAY"))
        message.properties = properties
        with open_writer(tmp_path / str(number), mappedFileSizeCommitLog=1 << 20) as writer:
            writer.append(message)
        assert only_place_differs(last_record(tmp_path / str(number)), record)
    (tmp_path := tmp_path / "later").mkdir()
    with open_writer(tmp_path, messageDelayLevel="1s 2s") as writer:
        writer.append(Message("T", b"", delay_level=9))
    assert last_record(tmp_path).queue_id == 1
    assert parse_properties(last_record(tmp_path).properties)["DELAY"] == "2"
