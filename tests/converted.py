"""Conversions in this process and in memory, and a slow writer of logs to compare them with."""

import json
import struct
import zlib
from collections.abc import Callable, Mapping
from typing import Any
from unittest import mock

from reput.jobs.convert import convert
from reput.jobs.converting.new_log import MeasuredLog, QueueKey
from reput.jobs.converting.ordered import Source
from reput.jobs.converting.report import ConvertSummary
from reput.jobs.opening.plan import make_plan
from reput.jobs.pipeline import stages
from reput.jobs.pipeline.pipeline import Cut, Pipeline
from reput.store_format.discover.purpose import CONVERT
from reput.store_format.discover.store import StoreAt, discover
from reput.store_format.notes import Progress
from reput.store_format.rewrite.changes import Changes
from reput.store_format.rewrite.selection import Tally
from reput.udfs.staging import Staging
from tests.in_process import OUTPUT, STORE, Session, as_text, storage_of
from tests.logs import Log
from tests.logs.encoder import Message, build_log, properties
from tests.memory_storage import MemoryStorage

SEGMENT = 2048
PLAIN = {"mappedFileSizeCommitLog": SEGMENT, "maxHashSlotNum": 7, "maxIndexNum": 40,
         "mappedFileSizeConsumeQueue": 400}  # fmt: skip
MAGICS = (0xDAA320A7, 0xDAA320AB)


def converted(
    log: Log, storage: MemoryStorage | None = None, seed: int = 0, splits: int = 1, **options: Any
) -> tuple[ConvertSummary, MemoryStorage]:
    storage = storage or storage_of(log)
    before = dict(storage.files)
    cut = Cut(-(-log.settings["mappedFileSizeCommitLog"] // splits), 2, 2)
    with mock.patch.multiple(stages, _PIECES_A_TASK=1):
        try:
            summary = convert(Session(seed), STORE, OUTPUT, rocketmq=log.version,
                              settings=as_text(log.settings), storage=storage, cut=cut,
                              **options)  # fmt: skip
        except BaseException:
            assert storage.files == before
            raise
    published = {p for p in storage.files if p.startswith(OUTPUT + "/")}
    assert storage.files.keys() - published == before.keys()
    assert all(storage.files[path] == before[path] for path in before)
    return summary, storage


def records(segments: dict[int, bytes]) -> list[tuple[int, bytes]]:
    """Each record's place and bytes, up to the first place where none stands."""
    found = []
    for start in sorted(segments):
        raw, at = segments[start], 0
        while at + 8 <= len(raw):
            size, magic = struct.unpack_from(">iI", raw, at)
            if magic not in MAGICS:
                break
            found.append((start + at, raw[at : at + size]))
            at += size
        if at + 8 > len(raw) or struct.unpack_from(">I", raw, at + 4)[0] != 0xCBD43194:
            break
    return found


def at_place(record: bytes, place: int) -> bytes:
    """The record as RocketMQ would have written it there."""
    made = record[:28] + struct.pack(">q", place) + record[36:]
    if made[-20:-11] == b"__CRC32#\x01" and made[-1] == 2:
        digits = f"{zlib.crc32(made[:-20]) & 0x7FFF_FFFF:010d}"[::-1].encode()
        made = made[:-11] + digits + b"\x02"
    return made


def written(
    old: list[tuple[int, bytes]], start: int, size: int,
    change: Callable[[bytes], bytes] = lambda record: record,
) -> dict[int, bytes]:  # fmt: skip
    """The segments of a log that has these records anew, from `start` on."""
    segments = [bytearray()]
    for _, record in old:
        record = change(record)
        left = size - len(segments[-1])
        if len(record) + 8 > left:
            segments[-1] += struct.pack(">iI", left, 0xCBD43194)
            segments.append(bytearray())
        at = start + (len(segments) - 1) * size + len(segments[-1])
        segments[-1] += at_place(record, at)
    return {start + n * size: bytes(s.ljust(size, b"\0")) for n, s in enumerate(segments)}


def log_of(storage: MemoryStorage, folder: str = OUTPUT) -> dict[int, bytes]:
    prefix = f"{folder}/commitlog/"
    return {int(path.removeprefix(prefix)): storage.files[path]
            for path in storage.files if path.startswith(prefix)}  # fmt: skip


def derived_of(storage: MemoryStorage) -> dict[str, bytes]:
    """The derived files by their paths, those of the index by their order."""
    names = (path.removeprefix(f"{OUTPUT}/") for path in sorted(storage.files)
             if path.startswith(f"{OUTPUT}/"))  # fmt: skip
    index = 0
    found = {}
    for name in names:
        key = name
        if name.startswith("index/"):
            key, index = f"index/{index}", index + 1
        if not name.startswith(("commitlog/", "config/", "manifest")):
            found[key] = storage.files[f"{OUTPUT}/{name}"]
    return found


def stores_of(stores: list[list[Message]], config: Any = (), apart: bool = False) -> MemoryStorage:
    """Stores STORE0, STORE1, ... with these messages. config: of each store, file -> content.

    apart: each one's log begins a segment after that of the one before."""
    files = {}
    for n, messages in enumerate(stores):
        for base, content in build_log(messages, SEGMENT, n * SEGMENT * apart).items():
            files[f"{STORE}{n}/commitlog/{base:020d}"] = content
        for name, whole in (config[n] if config else {}).items():
            files[f"{STORE}{n}/config/{name}.json"] = json.dumps(whole).encode()
    return MemoryStorage(files)


def plain(messages: list[Message]) -> Log:
    return Log(build_log(messages, SEGMENT), PLAIN, "5.3.3", {})


def joined(
    storage: MemoryStorage, many: int, splits: int = 1, settings: Any = PLAIN, **options: Any
) -> ConvertSummary:
    """So many stores of a storage converted into one."""
    options = {"merge": [f"{STORE}{n}" for n in range(1, many)], "store": f"{STORE}0", **options}
    return convert(
        Session(), options.pop("store"), OUTPUT, rocketmq="5.3.3", settings=as_text(settings),
        storage=storage, cut=Cut(-(-SEGMENT // splits), 2, 2), **options,
    )  # fmt: skip


def encoded(messages: list[Message], first: int = 0) -> list[bytes]:
    return [record for _, record in records(build_log(messages, SEGMENT, first))]


def records_of(storage: MemoryStorage) -> list[bytes]:
    """The records of the new log."""
    return [record for _, record in records(log_of(storage))]


def body(record: bytes) -> bytes:
    return record[88 : 88 + int.from_bytes(record[84:88])]


def position(record: bytes) -> int:
    return int.from_bytes(record[20:28])


def config(storage: MemoryStorage, name: str, table: str = "offsetTable") -> Any:
    return json.loads(storage.files[f"{OUTPUT}/config/{name}.json"])[table]


def job_of(storage: MemoryStorage, settings: Any = PLAIN, **more: Any) -> Pipeline:
    """A job that converts the store of this storage."""
    storage.make_folders("staging")
    at = StoreAt(storage, STORE, "5.3.3", as_text(settings))
    plan = make_plan(at, discover(at, CONVERT), CONVERT, **more)
    return Pipeline(Session(), plan, Staging(storage, "staging"), Cut(), Progress())


def source_of(
    queues: Mapping[tuple[str, int], Tally], changes: Changes | None = None, **files: bytes
) -> Source:
    """A store with these queues and these files of config/."""
    storage = storage_of(plain([Message("T")]))
    storage.files |= {f"{STORE}/config/{name}.json": raw for name, raw in files.items()}
    known = {QueueKey(*key): each for key, each in queues.items()}
    return Source(job_of(storage), changes or Changes(), MeasuredLog([], 0, 0, known, []))


# Records whose numbers stand in their properties.

START = 1_700_000_000_000  # milliseconds
LMQ = "%LMQ%dev"


def light(topic: str, n: int, number: int, time: int, more: str = "", numbers: str = "") -> Message:
    """Message n of a topic, which is number `number` of the LMQ too."""
    pairs = properties(("KEYS", "k"), ("INNER_MULTI_QUEUE_OFFSET", f"{number}{numbers}"),
                       ("INNER_MULTI_DISPATCH", f"{LMQ}{more}"), ("TAGS", "t"))  # fmt: skip
    return Message(topic, 0, n, b"m", pairs, store_timestamp=START + time, crc_property=n % 2 == 0)


def batch(base: int, messages: int, time: int, text: str | None = None) -> Message:
    pairs = properties(("INNER_NUM", str(messages)), ("INNER_BASE", text or str(base)))
    return Message("B", 0, base, b"b", pairs, store_timestamp=START + time)


BATCHES = {"topicConfigTable": {"B": {"topicName": "B", "readQueueNums": 1, "writeQueueNums": 1,
                                      "attributes": {"queue.type": "BatchCQ"}}}}  # fmt: skip
