"""What the writer's tests share: small stores, and messages from what the real RocketMQ wrote."""

import ipaddress
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from reput.broker.writer.writer import CommitLogWriter
from reput.store_format import layouts
from reput.store_format.log.record import Record, read_body, read_one
from reput.store_format.log.records import RecordRules
from reput.store_format.log.walk import Read
from reput.store_format.message.message import Message
from reput.store_format.release.settings import WriterSettings, writer_settings_from

RULES = RecordRules(True, True)
TINY = {"mappedFileSizeCommitLog": 4096, "mappedFileSizeConsumeQueue": 400, "maxHashSlotNum": 16,
        "maxIndexNum": 20}  # fmt: skip


def settings(**named: object) -> WriterSettings:
    return writer_settings_from({name: str(value) for name, value in (TINY | named).items()})


class Clock:
    """Milliseconds that go on only when asked to."""

    def __init__(self, now: int = 1_700_000_000_000) -> None:
        self.now = now

    def __call__(self) -> int:
        return self.now


def open_writer(root: Path, clock: Clock | None = None, **options: object) -> CommitLogWriter:
    """A writer without threads on a tiny store; words that are settings' names set those."""
    named = {k: options.pop(k) for k in list(options) if k[0].islower() and any(
        map(str.isupper, k))}  # fmt: skip
    options.setdefault("background", False)
    return CommitLogWriter.open(str(root), settings(**named), clock=clock or Clock(), **options)


def read_stored(read: Read, at: int, segment_end: int, rules: RecordRules) -> Record | None:
    """The record at a physical offset with its body; None where no sound record is."""
    left = segment_end - at
    if left < layouts.RECORD_HEAD_BYTES:
        return None  # a BLANK at most
    _, record = read_one(read, at, segment_end, rules, layouts.RECORD_HEAD_BYTES)
    return None if record is None else record._replace(body=read_body(read, record))


def stored_records(commitlog: Path, rules: RecordRules = RULES) -> Iterator[Record]:
    """The records of a log, in order, to its first fault."""
    for path in sorted(commitlog.iterdir()):
        base = int(path.name)
        data = np.fromfile(path, np.uint8)

        def read(at: int, buffer: np.ndarray, data: np.ndarray = data, base: int = base) -> None:
            buffer[:] = data[at - base : at - base + len(buffer)]

        at = base
        while at < base + len(data):
            record = read_stored(read, at, base + len(data), rules)
            if record is None:
                break
            yield record
            at += record.size


def host_text(raw: bytes) -> str:
    address = ipaddress.ip_address(raw[:-4])
    port = int.from_bytes(raw[-4:], "big")
    return f"[{address}]:{port}" if address.version == 6 else f"{address}:{port}"


def as_message(record: Record) -> Message:
    """The message whose record it is, its properties as they are."""
    known = layouts.SYS_TRANSACTION_MASK | layouts.SYS_BORN_HOST_V6 | layouts.SYS_STORE_HOST_V6
    return Message(topic=record.topic, body=record.body, queue_id=record.queue_id,
                   properties=record.properties, flag=record.flag, transaction=record.transaction,
                   sys_flag=record.sys_flag & ~known, prepared_offset=record.prepared_offset,
                   born_timestamp=record.born_timestamp, born_host=host_text(record.born_host),
                   store_host=host_text(record.store_host),
                   reconsume_times=record.reconsume_times)  # fmt: skip


def no_counter(raw: bytes) -> bytes:
    """Properties without the number within UNIQ_KEY and without a CRC."""
    at = raw.find(b"UNIQ_KEY\x01")
    end = (raw + b"\x02").index(b"\x02", at)
    kept = raw[: end - 4] + b"...." + raw[end:]
    crc = kept.find(b"__CRC32#")
    return kept if crc < 0 else kept[:crc]
