"""Small logs written record by record, as a broker's services write them."""

from collections.abc import Callable
from dataclasses import dataclass, field

from reput.store_format.dispatch.scan import record_rules
from reput.store_format.fate.gather import Gathered, Keep, gather
from reput.store_format.log.reader import LogReader
from reput.store_format.log.segments import find_segments
from reput.store_format.release.profiles import profile
from tests.built import T0, Built
from tests.logs.encoder import encode, properties
from tests.memory_storage import MemoryStorage

HALF, OP = "RMQ_SYS_TRANS_HALF_TOPIC", "RMQ_SYS_TRANS_OP_HALF_TOPIC"
ROCKSDB_HALF = "RMQ_SYS_ROCKSDB_TRANS_HALF_TOPIC"
ROCKSDB_OP = "RMQ_SYS_ROCKSDB_TRANS_OP_HALF_TOPIC"
DISCARDED, SCHEDULE, WHEEL = ("TRANS_CHECK_MAX_TIME_TOPIC", "SCHEDULE_TOPIC_XXXX",
    "rmq_sys_wheel_timer")  # fmt: skip
SEGMENT = 1 << 16


@dataclass
class SmallLog:
    """Appends records; each call gives the record's physical offset."""

    start: int = 0
    raw: bytearray = field(default_factory=bytearray)
    positions: dict[tuple[str, int], int] = field(default_factory=dict)
    now: int = T0
    built: Built = field(default_factory=Built)

    def put(self, topic: str, queue_id: int = 0, *pairs: tuple[str, str], **more: object) -> int:
        position = self.positions.get((topic, queue_id), 0)
        self.positions[topic, queue_id] = position + 1
        own = {"queue_offset": position, "properties": properties(*pairs), "body": b"secret body"}
        self.built.put(topic, queue_id, **{**own, "store_timestamp": self.now, **more})
        at = self.start + len(self.raw)
        self.raw += encode(self.built.messages[-1], at)
        self.now += 1000
        return at

    def half(self, key: str, *pairs: tuple[str, str], **more: object) -> int:
        own = (("UNIQ_KEY", key), ("REAL_TOPIC", "Orders"), ("REAL_QID", "1"), ("PGROUP", "shop"))
        return self.put(HALF, 0, *own, *pairs, **more)

    def commit(self, half: int, key: str, topic: str = "Orders", queue_id: int = 1) -> int:
        own = (("UNIQ_KEY", key), ("REAL_TOPIC", "Orders"), ("REAL_QID", "1"))
        return self.put(topic, queue_id, *own, sys_flag=8, prepared_transaction_offset=half)

    def op(self, body: bytes, tag: str = "d") -> int:
        return self.put(OP, 0, ("TAGS", tag), body=body)

    def rocksdb_half(self, key: str) -> int:
        own = (("UNIQ_KEY", key), ("__transactionId__", key), ("REAL_TOPIC", "Orders"))
        return self.put(ROCKSDB_HALF, 0, *own, ("REAL_QID", "1"))

    def rocksdb_op(self, place: int | str, key: str) -> int:
        own = (("UNIQ_KEY", f"op of {key}"), ("__transactionId__", key), ("TAGS", "d"))
        return self.put(ROCKSDB_OP, 0, *own, ("TRANS_OFFSET", str(place)), body=b"\0")

    def delay(self, key: str, level: int, topic: str = "Orders", **more: object) -> int:
        own = (("UNIQ_KEY", key), ("DELAY", str(level)), ("REAL_TOPIC", topic), ("REAL_QID", "1"))
        return self.put(SCHEDULE, level - 1, *own, **more)

    def timer(self, key: str, out: int | str, *pairs: tuple[str, str], **more: object) -> int:
        own = (("UNIQ_KEY", key), ("TIMER_OUT_MS", str(out)), ("REAL_TOPIC", "Orders"))
        return self.put(WHEEL, 0, *own, ("REAL_QID", "1"), *pairs, **more)

    def deliver(self, key: str, topic: str = "Orders", queue_id: int = 1, **more: object) -> int:
        own = (("UNIQ_KEY", key), ("REAL_TOPIC", topic), ("REAL_QID", "1"))
        return self.put(topic, queue_id, *own, **more)

    def files(self) -> dict[str, bytes]:
        assert len(self.raw) < SEGMENT
        return {f"store/commitlog/{self.start:020d}": bytes(self.raw.ljust(SEGMENT, b"\0"))}

    def reader(self) -> LogReader:
        storage = MemoryStorage(self.files())
        segments = find_segments(storage, ["store/commitlog"], SEGMENT)
        return LogReader(storage, segments, record_rules(profile("5.3.3")))

    def gather(self, keep: Keep, seen: Callable[[int], None] | None = None) -> Gathered:
        return gather(self.reader(), keep, split=False, seen=seen)
