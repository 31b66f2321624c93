"""Stores for the services' tests: on disk or in memory, written by the writer at a given time."""

from pathlib import Path
from typing import Any

from reput.broker.services.deliver import Delivered, DeliveryPlan, Until, deliver, plan_delivery
from reput.broker.writer.writer import CommitLogWriter
from reput.store_format.fate import delays
from reput.store_format.fate.rows import gathered_delays
from reput.store_format.files.disk import DiskFiles
from reput.store_format.files.folder import Folder
from reput.store_format.files.local import LocalStorage
from reput.store_format.files.protocol import Files
from reput.store_format.message.ids import UniqueIds
from reput.store_format.message.message import HALF_TOPIC, Message, parse_properties
from reput.store_format.notes import Notes
from reput.store_format.query.reader import OpenedStore
from tests.broker.writer.stores import Clock, settings
from tests.faults.files_storage import Rooted
from tests.faults.memory_files import MemoryFiles

T0 = 1_700_000_000_000
LEVELS = "1s 5s 10s"
SIZES: dict[str, object] = {"messageDelayLevel": LEVELS, "mappedFileSizeTimerLog": 200}


def opened(files: Files, **named: object) -> OpenedStore:
    given = {name: str(value) for name, value in (SIZES | named).items()}
    if isinstance(files, DiskFiles):
        return OpenedStore(Folder(LocalStorage(), files.root), "5.3.3", given, Notes())
    assert isinstance(files, MemoryFiles)
    return OpenedStore(Folder(Rooted(files), ""), "5.3.3", given, Notes())


def writing(files: Files, clock: Clock, **named: Any) -> CommitLogWriter:
    """A writer without threads, whose messages' UNIQ_KEYs are distinguished by the clock."""
    release = named.pop("release", "5.3.3")
    return CommitLogWriter.open(
        getattr(files, "root", ""), settings(**(SIZES | named)), clock=clock, files=files,
        background=False, unique_ids=UniqueIds(clock, "127.0.0.1:1", 1, clock.now & 0xFFFF),
        release=release)  # fmt: skip


def delayed(body: str, level: int, topic: str = "Orders", queue_id: int = 1) -> Message:
    return Message(topic, body.encode(), queue_id, delay_level=level)


def timer(body: str, milliseconds: int, **more: str) -> Message:
    properties = {"TIMER_DELAY_MS": str(milliseconds), **more}
    return Message("Orders", body.encode(), 1, properties=properties)


def planned(files: Files, until: Until, stopped: bool = True) -> tuple[DeliveryPlan, int]:
    with opened(files) as store:
        gathered, levels, read = gathered_delays(store, Notes())
        read = read._replace(stopped=stopped)
        found = delays.resolve(gathered, levels, read)
        return plan_delivery(gathered, found, levels, until), read.timer_read


def run(files: Files, until: int, now: int | None = None, missed: bool = False, stop_after: int = 0,
        **named: Any) -> Delivered:  # fmt: skip
    """A whole run of the job, as `reput deliver-delayed` has it; stop_after: as by a signal."""
    clock = Clock(until if now is None else now)
    wanted = Until(until, clock.now, missed, 1000)
    left = [stop_after]

    def go_on() -> bool:
        left[0] -= 1
        return left[0] != 0

    with writing(files, clock, **named) as writer:
        plan, read_before = planned(files, wanted)
        with opened(files) as store:
            return deliver(writer, store, plan, wanted, read_before, go_on)


def bodies(files: Files, topic: str = "Orders", queue_id: int = 1) -> list[str]:
    """What a topic's queue has, by its ConsumeQueue."""
    with opened(files) as store:
        return [store.log.body(store.log.record_at(entry.physical_offset)).decode()
                for entry in store.queue(topic, queue_id, False).entries(0)]  # fmt: skip


def properties_in(files: Files, topic: str = "Orders", queue_id: int = 1) -> list[dict[str, str]]:
    with opened(files) as store:
        return [parse_properties(store.log.record_at(entry.physical_offset).properties)
                for entry in store.queue(topic, queue_id, False).entries(0)]  # fmt: skip


def disk(root: Path) -> DiskFiles:
    root.mkdir(exist_ok=True)
    return DiskFiles(str(root))


def half(writer: CommitLogWriter, key: str, checks: int = 0, topic: str = HALF_TOPIC,
         **more: str) -> int:  # fmt: skip
    """A half message, or with checks a copy as a broker appends it."""
    pairs = {"UNIQ_KEY": key, "REAL_TOPIC": "Orders", "REAL_QID": "1", "PGROUP": "g",
             "TRAN_MSG": "true"} | more  # fmt: skip
    if checks:
        pairs["TRANSACTION_CHECK_TIMES"] = str(checks)
    raw = "".join(f"{name}\x01{value}\x02" for name, value in pairs.items()).encode()
    message = Message(topic, key.encode(), 0, properties=raw)
    return writer.put(writer.encoder.draft(message)).physical_offset
