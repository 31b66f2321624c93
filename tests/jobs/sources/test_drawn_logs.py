"""Rows of logs of every kind, sound and damaged, beside what the slow reference walks."""

import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, event, example, given, settings
from hypothesis import strategies as st

from reput.store_format.faults import SALVAGE, StoreError
from tests.in_process import as_text
from tests.jobs.sources.reading import table, write
from tests.logs import Log, build_log, logs
from tests.logs.encoder import Message as Put
from tests.reference.log import BadRecordError, Message, Walk, check_whole_crc
from tests.reference.rules import Rules, parse_version

_ENDS = ("zeros", "end of segments")  # why a walk of the reference stops where all was read


def _ends_as_it_should(log: Log, wanted: list[Message]) -> bool:
    """Whether zeros or a BLANK of the right size follow each segment's last record."""
    for start, content in log.segments.items():
        ends = [m.physical_offset + m.size - start for m in wanted]
        rest = content[max((end for end in ends if 0 < end <= len(content)), default=0) :]
        if any(rest) and int.from_bytes(rest[:4], "big") != len(rest):
            return False
    return True


def _clock_goes_back(messages: list[Message]) -> bool:
    times = [message.store_timestamp for message in messages]
    return times != sorted(times)


def _queues_go_on(messages: list[Message]) -> bool:
    """Whether every queue's offsets go on by one: else an earlier time has nobody against it."""
    last: dict[tuple[str, int], int] = {}
    for message in messages:
        queue = message.topic, message.queue_id
        if last.setdefault(queue, message.queue_offset - 1) != message.queue_offset - 1:
            return False
        last[queue] = message.queue_offset
    return True


def _proven(log: Log, wanted: list[Message], rules: Rules) -> list[int]:
    """The places of records whose `__CRC32#`, if there is one, fits. Salvage counts another as
    damage also where a broker does not look (checkCRCOnRecover=false, no forceVerifyPropCRC).
    """
    return [m.physical_offset for m in wanted if _fits(log, m, rules)]


def _fits(log: Log, message: Message, rules: Rules) -> bool:
    if "__CRC32#" not in (message.properties or {}) or not rules.since(5, 2, 0):
        return True
    start = max(start for start in log.segments if start <= message.physical_offset)
    at = message.physical_offset - start
    try:
        check_whole_crc(log.segments[start], at, message.size, message.properties or {}, rules)
    except BadRecordError:
        return False
    return True


def _wrong_crc_unread() -> Log:
    """The top digit of a `__CRC32#` flipped, as 4542036700, beyond 32 bits, was 0542036700. A
    broker with checkCRCOnRecover=false reads it (CommitLog.checkMessageAndReturnSize).
    """
    size = 1024
    raw = bytearray(build_log([Put(topic="T", crc_property=True)], size, 0)[0])
    raw[int.from_bytes(raw[:4], "big") - 2] ^= 4
    settings = {
        "mappedFileSizeCommitLog": size, "checkCRCOnRecover": False, "forceVerifyPropCRC": True,
    }  # fmt: skip
    return Log({0: bytes(raw)}, settings, "5.2.0", {})


@pytest.mark.explore
@example(log=_wrong_crc_unread(), parts=1)
@settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck))
@given(log=logs(), parts=st.sampled_from([1, 2, 5, 40]))
def test_rows_are_the_references(log: Log, parts: int) -> None:
    rules = Rules(parse_version(log.version), log.settings, log.topic_attributes)
    walk = Walk(log.segments, rules)
    wanted = list(walk)
    with tempfile.TemporaryDirectory() as folder:
        store = write(log, Path(folder))
        options = {**as_text(log.settings), "rocketmq": log.version, "minPartitions": parts}
        try:
            rows = table(store, **options).to_pylist()
        except StoreError as error:
            said, rows = str(error), None
        salvaged = table(store, **options, onDamage=SALVAGE)["physicalOffset"].to_pylist()
    assert salvaged == sorted(set(salvaged))
    if rows is None:
        event("refused")
        assert "later segment" in said or "live records may follow" in said
        return
    for row, message in zip(rows, wanted, strict=False):
        assert row["physicalOffset"] == message.physical_offset
        assert (row["topic"], row["body"]) == (message.topic, message.body)
        assert dict(row["properties"]) == (message.properties or {})
        assert len(row["properties"]) == len(message.properties or {})
    if walk.stop in _ENDS:
        event("whole")
        proven = _proven(log, wanted, rules)
        assert len(rows) == len(wanted)
        if _ends_as_it_should(log, wanted):
            assert salvaged == proven
        elif _queues_go_on(wanted) or not _clock_goes_back(wanted):
            # behind a BLANK of a wrong size salvage finds what a broker jumps over
            assert set(proven) <= set(salvaged)
        # else records before remains of an earlier time may count as such remains themselves
    else:  # what dispatch alone refuses is a row; a record that a CRC does not fit is none
        event("broken off")
        assert len(rows) >= len(wanted)
