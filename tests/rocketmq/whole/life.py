"""A broker's life in which a store gets all that is more than queues, and what is to come of it."""

import os
import shutil
import signal
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, Self

from tests.in_process import as_text
from tests.jobs.sockets.asking import Peer
from tests.rocketmq.driver import Driver
from tests.rocketmq.live import Broker, Client
from tests.rocketmq.whole.consumer import Consumer, PopConsumer

QUEUES = 2
LMQ = "%LMQ%dev"
FAILING = "failing"
SIZES: dict[str, object] = {"mappedFileSizeCommitLog": 1 << 14, "mappedFileSizeConsumeQueue": 2000,
                            "maxHashSlotNum": 100, "maxIndexNum": 400}  # fmt: skip
# A check point is written to the log a second after it was popped, not after ten.
_SOON = {"popCkStayBufferTime": 1000, "popCkStayBufferTimeOut": 500}
_ROCKSDB = {"storeType": "defaultRocksDB"}
_HOUR = 3600


class Size(NamedTuple):
    """How much of each kind, and for how many seconds after the life's begin something waits."""

    plain: int = 4
    timers: int = 8
    delayed: int = 4
    half: int = 4
    popped: int = 8
    due: int = 26
    roll: int = 13  # timerRollWindowSlot: timers due later than that are rolled

    def on_this_machine(self) -> Self:
        """What waits must not be due before the life's end: longer, where a machine is busy."""
        times = max(1.0, min(6.0, os.getloadavg()[0] / (os.cpu_count() or 1) / 2))
        return self._replace(due=int(self.due * times), roll=int(self.roll * times))


def features(version: str, queues: str = "files") -> frozenset[str]:
    """What a release has of it: LMQ from 4.9.3, timers, pop and batch queues from 5.0, topics with
    compaction from 5.1, queues in RocksDB from 5.2 (where batch queues and compaction are not
    read), check points there (popConsumerKVServiceEnable) from 5.3.2."""
    since = {"plain": "4.3.0", "delayed": "4.1.0", "half": "4.3.0", "retry": "4.1.0",
             "lmq": "4.9.3", "timers": "5.0.0", "pop": "5.0.0", "batch": "5.0.0",
             "compaction": "5.1.0", "rocksdb": "5.2.0", "kv": "5.3.2"}  # fmt: skip
    has = {each for each, first in since.items() if _number(version) >= _number(first)}
    return frozenset(has - {"batch", "compaction"} if queues == "rocksdb" else has)


def _number(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))


# Pop comes early: what is behind it is no reason to keep its messages.
_ORDER = ("plain", "pop", "lmq", "batch", "compaction", "timers", "delayed", "half", "retry")


class Reader(NamedTuple):
    """A group that reads a topic. kind: pull, pop, ordered (popped in order)."""

    group: str
    topic: str
    kind: str = "pull"
    queues: int = QUEUES

    def __str__(self) -> str:
        return f"{self.group} {self.topic}"


PARTS = {"nothing": 0.0, "quarter": 0.25, "half": 0.5, "all": 1.0}
READERS = {
    "plain": [*(Reader(f"part-{name}", "Plain") for name in PARTS)],
    "delayed": [Reader("arrivals", "Delayed")], "half": [Reader("arrivals", "Half")],
    "retry": [
        Reader(FAILING, f"%RETRY%{FAILING}", queues=1),
        Reader("buried", f"%DLQ%{FAILING}", queues=1),
    ],
    "lmq": [Reader("%LMQ%reader", LMQ, queues=1)], "timers": [Reader("arrivals", "Timers")],
    "pop": [Reader("popper", "Popped", "pop"), Reader("orderly", "PoppedInOrder", "ordered")],
    "batch": [Reader("part-batch", "Batch", queues=1)],
    "compaction": [Reader("part-compacted", "Compacted", queues=1)],
}  # fmt: skip


def readers(has: frozenset[str]) -> list[Reader]:
    return [each for name in sorted(has & READERS.keys()) for each in READERS[name]]


@dataclass
class Made:
    """A store and what is still to come of it, by reader; keys name messages."""

    version: str
    # The engine of queues: files or rocksdb; services: files, and timers and half messages are in
    # a RocksDB (from 5.4.0).
    queues: str
    settings: dict[str, Any]
    store: str
    killed: str
    early: str  # its derived files in the middle of its life
    expected: dict[str, list[str]] = field(default_factory=dict)
    due: dict[str, int] = field(default_factory=dict)  # milliseconds since 1970
    pending: list[str] = field(default_factory=list)
    cut: int = 0  # a place in the log shortly before its end, with `tail` behind it
    tail: dict[str, list[str]] = field(default_factory=dict)  # of `expected`, what is behind it
    size: list[Any] = field(default_factory=list)  # a Size
    last_due: float = 0.0  # seconds since 1970; everything comes soon after it

    @property
    def has(self) -> frozenset[str]:
        return features(self.version, self.queues)

    @property
    def words(self) -> list[str]:
        """What a command is told of it."""
        told = ["--rocketmq", self.version]
        for name, value in as_text(self.settings).items():
            told += ["--set", f"{name}={value}"]
        return told


def settings(version: str, queues: str, size: Size) -> dict[str, object]:
    has = features(version, queues)
    given: dict[str, object] = {**SIZES, "messageDelayLevel": f"1s {size.due}s 1h"}
    given |= {"flushConsumerOffsetInterval": 1000, "flushDelayOffsetInterval": 1000}
    if "lmq" in has:
        given |= {"enableLmq": True, "enableMultiDispatch": True}
    if "timers" in has:
        given |= {"timerWheelEnable": True, "timerRollWindowSlot": size.roll, **_SOON}
        given["transactionOpBatchInterval"] = 100  # an op is in the log before what is its tail
    if queues == "rocksdb":
        given |= _ROCKSDB
        if "kv" in has:
            given |= {"popConsumerKVServiceEnable": True, "popConsumerKVServiceInit": True}
    if queues != "files" and _number(version) >= (5, 4, 0):
        given["timerRocksDBEnable"] = True
    if queues == "services":
        given["transRocksDBEnable"] = True
    return given


def live(
    version: str, folder: Path, client: Driver, size: Size, queues: str = "files", mark: str = ""
) -> Made:
    """Have a broker live it and stop; folder then has `store`, a copy that was made as if the
    broker had been killed just before its stop (`killed`), and derived files of an earlier moment.

    mark: begins each key of a second store, whose size is that of the first one's `Made`."""
    given = settings(version, queues, size)
    made = Made(version, queues, dict(given),
                *(str(folder / each) for each in ("store", "killed", "early")))  # fmt: skip
    made.size = list(size)
    store = Path(made.store)
    with Broker(version, store, **given) as broker, Peer(f"127.0.0.1:{broker.port}", 60) as peer:
        life = _Life(Client(client, broker.namesrv), broker, peer, made, size, mark)
        for name in _ORDER:
            if name in made.has:
                getattr(life, name)()
            if name == "compaction":
                broker.catch_up()
                _frozen(broker, store, Path(made.early))
        life.settle()
        made.cut = broker.status()["max_offset"]
        life.tail()
        _frozen(broker, store, Path(made.killed))
        broker.stop()
    return made


def copied(store: Path, target: Path) -> Path:
    return shutil.copytree(store, target, ignore=shutil.ignore_patterns("lock", "LOCK"))


def _frozen(broker: Broker, store: Path, target: Path) -> None:
    """A copy of what kill -9 would leave now: the broker stands still meanwhile."""
    os.kill(broker.driver.pid, signal.SIGSTOP)
    time.sleep(0.5)  # until each of its threads stands
    try:
        copied(store, target)
    finally:
        os.kill(broker.driver.pid, signal.SIGCONT)


class _Life:
    def __init__(
        self, client: Client, broker: Broker, peer: Peer, made: Made, size: Size, mark: str
    ) -> None:
        self.client, self.broker, self.peer, self.made, self.size = client, broker, peer, made, size
        self.mark = mark
        self.begun = time.time()
        self.made.last_due = self.begun + size.due
        self.popped: PopConsumer | None = None

    def _messages(self, kind: str, count: int, topic: str) -> list[dict[str, Any]]:
        return [
            {"t": topic, "q": n % QUEUES, "b": 40 + n % 200, "bs": n,
             "p": {"KEYS": f"{self.mark}{kind}{n}", "TAGS": "t"}}
            for n in range(count)
        ]  # fmt: skip

    def _send(self, messages: list[dict[str, Any]], **options: Any) -> list[list[Any]]:
        options = {"send_timeout_ms": 60_000, **options}
        return self.client.ask("send", messages=messages, queues=QUEUES, **options)["sent"]

    def _expect(self, reader: Reader, keys: Iterable[str]) -> None:
        self.made.expected[str(reader)] = sorted(keys)

    def _part_way(self, reader: Reader, part: float, sent: int) -> None:
        """The group reads so much of each queue; the rest is to come."""
        consumer = Consumer(self.peer, reader.group, reader.topic, reader.queues)
        consumer.read(int(sent / reader.queues * part))
        consumer.save()
        self._expect(reader, [each.key for each in _copy_of(consumer).read()])

    def plain(self) -> None:
        sent = self._messages("plain", self.size.plain, "Plain")
        for message in sent:
            message["b"] = 5000  # the first segment holds nothing else
        self._send(sent)
        self.broker.catch_up()
        for reader, part in zip(READERS["plain"], PARTS.values(), strict=True):
            self._part_way(reader, part, self.size.plain)

    def lmq(self) -> None:
        sent = self._messages("lmq", self.size.plain, "Behind")
        for message in sent:
            message["p"]["INNER_MULTI_DISPATCH"] = LMQ
        self._send(sent)
        self.broker.catch_up()
        self._part_way(READERS["lmq"][0], 0.5, len(sent))

    def batch(self) -> None:
        asked = {"topic": "Batch", "queues": 1, "attributes": {"queue.type": "BatchCQ"}}
        self.broker.driver.ask("broker.topic", **asked)
        sent = self._messages("batch", self.size.plain, "Batch")
        for message in sent:
            message["q"] = 0
        half = len(sent) // 2
        for some in (sent[:half], sent[half:]):
            self._send(some, as_batch=True)
        self.broker.catch_up()
        self._part_way(READERS["batch"][0], 0.75, len(sent))

    def compaction(self) -> None:
        asked = {"queues": 1, "attributes": {"cleanup.policy": "COMPACTION"}}
        self.broker.driver.ask("broker.topic", topic="Compacted", **asked)
        sent = self._messages("compacted", self.size.plain, "Compacted")
        self._send([{**message, "q": 0} for message in sent])
        self.broker.catch_up()
        self._part_way(READERS["compaction"][0], 0.5, len(sent))

    def timers(self) -> None:
        """Three of eight come at once, three wait (rolled on the way), one is far, one recalled."""
        sent = self._messages("timer", self.size.timers, "Timers")
        recalled = []
        for n, message in enumerate(sent):
            share = n / len(sent)
            due = self.begun + self.size.due * (0.9 + 0.1 * share)
            if n % 8 < 3:  # what is due when it is put never is a timer
                due = time.time() + 2.5 + share * len(sent) / 200
            elif n % 8 > 5:
                due = self.begun + _HOUR
            due = int(due * 1000)
            message["p"]["TIMER_DELIVER_MS"] = str(due)
            self.made.due[message["p"]["KEYS"]] = due
            if n % 8 == 7:
                recalled.append(message)
        keys = {message["p"]["KEYS"]: row[3] for message, row in
                zip(sent, self._send(sent), strict=True)}  # fmt: skip
        for message in recalled:
            unique = keys[message["p"]["KEYS"]]
            named = f"Timers+{unique}" if _number(self.made.version) >= (5, 3, 2) else unique
            again = {"KEYS": f"{self.mark}recall", "TIMER_DEL_UNIQKEY": named}
            self._send([{**message, "p": {**message["p"], **again}}])
        waiting = [m["p"]["KEYS"] for n, m in enumerate(sent) if n % 8 in (3, 4, 5)]
        self._expect(READERS["timers"][0], waiting)

    def delayed(self) -> None:
        """Half of them come at once, a quarter waits, a quarter is far."""
        sent = self._messages("delayed", self.size.delayed, "Delayed")
        for n, message in enumerate(sent):
            message["delay"] = (1, 1, 2, 3)[n % 4]
            wait = (1, 1, self.size.due, _HOUR)[n % 4]
            self.made.due[message["p"]["KEYS"]] = int((time.time() + wait) * 1000)
        self._send(sent)
        self.made.last_due = max(self.made.last_due, time.time() + self.size.due)
        self._expect(READERS["delayed"][0], [m["p"]["KEYS"] for m in sent[2::4]])

    def half(self) -> None:
        """A quarter is committed, a quarter rolled back, half of them wait for the producer."""
        sent = self._messages("half", self.size.half, "Half")
        outcomes = ("COMMIT_MESSAGE", "ROLLBACK_MESSAGE", "UNKNOW", "UNKNOW")
        told = [{**message, "outcome": outcomes[n % 4]} for n, message in enumerate(sent)]
        asked = {"messages": told, "queues": QUEUES, "send_timeout_ms": 60_000}
        done = self.client.ask("transactions", **asked)["sent"]
        self.made.pending = [unique for _, unique, outcome in done if outcome == "UNKNOW"]
        keys = [m["p"]["KEYS"] for m in told if m["outcome"] == "UNKNOW"]
        self._expect(READERS["half"][0], keys)

    def retry(self) -> None:
        """Of three that fail one is in the retry topic, one waits for it, one is a dead letter."""
        self._send(self._messages("failed", 3, "Failed"))
        self.broker.catch_up()
        consumer = Consumer(self.peer, FAILING, "Failed", QUEUES)
        waits, given, dead = sorted(consumer.read(), key=lambda each: each.key)
        consumer.send_back(waits, 2, 16)
        consumer.send_back(given, 1, 16)
        consumer.send_back(dead, 1, 0)
        consumer.save()
        self.made.due[waits.key] = int((time.time() + self.size.due) * 1000)
        again, buried = READERS["retry"]
        self._expect(again, [waits.key, given.key])
        self._expect(buried, [dead.key])

    def pop(self) -> None:
        """All are popped, in order and not, and a third acknowledged. What follows in the log fills
        the segment: nothing else keeps these messages from being deleted, not even their check
        points. What is invisible for longer than timers are rolled a broker gives again even where
        it was acknowledged."""
        for reader, kind in zip(READERS["pop"], ("popped", "inorder"), strict=True):
            sent = self._messages(kind, self.size.popped, reader.topic)
            if reader.kind == "ordered":
                for message in sent:
                    message["q"] = 0
            self._send(sent)
            self._send([{"t": "Filler", "q": 0, "b": 5000} for _ in range(3)])
            self.broker.catch_up()
            consumer = PopConsumer(self.peer, reader.group, reader.topic,
                                   int(reader.kind == "ordered"))  # fmt: skip
            keys = [message["p"]["KEYS"] for message in sent]
            invisible = (self.size.roll - 2) * 1000
            popped = consumer.pop(invisible)
            while not consumer.ordered and len(popped) < len(keys):  # in order 32 hold up the rest
                popped += consumer.pop(invisible)
            for got, each in popped[: len(popped) // 3]:
                consumer.ack(each)
                keys.remove(got.key)
            self._expect(reader, keys)

    def settle(self) -> None:
        """Until what is due at once has come, and groups have read it; all is in the log then."""
        wanted = {"Timers": lambda n: n % 8 < 3, "Delayed": lambda n: n % 4 < 2,
                  "Half": lambda n: n % 4 == 0}  # fmt: skip
        for name, kind, count in (
            ("Timers", "timers", self.size.timers), ("Delayed", "delayed", self.size.delayed),
            ("Half", "half", self.size.half),
        ):  # fmt: skip
            if kind not in self.made.has:
                continue
            consumer, end = Consumer(self.peer, "arrivals", name, QUEUES), time.time() + 20
            found: list[str] = []
            while len(found) < sum(map(wanted[name], range(count))):
                found += [each.key for each in consumer.read()]
                assert time.time() < end, (name, found)
                time.sleep(0.1)
            consumer.save()

    def tail(self) -> None:
        """The last messages, which a crash may take: two timers, and two that a group has read."""
        sent = self._messages("tail", 2, "Plain")
        self._send(sent)
        if "timers" in self.made.has:
            for n, message in enumerate(self._messages("tail-timer", 2, "Timers")):
                due = int((self.begun + self.size.due) * 1000) - 500 * n
                message["p"]["TIMER_DELIVER_MS"] = str(due)
                self.made.due[message["p"]["KEYS"]] = due
                self._send([message])
                self._tail(READERS["timers"][0], [message["p"]["KEYS"]])
        self.broker.catch_up()
        for reader in READERS["plain"]:
            self._tail(reader, [message["p"]["KEYS"] for message in sent])
            if reader.group == "part-all":
                consumer = Consumer(self.peer, reader.group, reader.topic, reader.queues)
                found = [each.key for each in consumer.read()]
                consumer.save()
                for kept in (self.made.expected, self.made.tail):
                    kept[str(reader)] = [key for key in kept[str(reader)] if key not in found]
        # Check points and half messages' ops go to the log, timers into the wheel; a broker writes
        # offsets after ten seconds for the first time, timercheck every three (Broker.calm).
        time.sleep(max(3.5, self.begun + 12 - time.time()))
        self.broker.catch_up()
        waited = min((self.made.due.get(key, 0) for keys in self.made.expected.values()
                      for key in keys if key in self.made.due), default=0)  # fmt: skip
        assert not waited or waited > time.time() * 1000, "the life took too long: try again"

    def _tail(self, reader: Reader, keys: list[str]) -> None:
        for kept in (self.made.expected, self.made.tail):
            kept[str(reader)] = [*kept.get(str(reader), []), *keys]


def _copy_of(consumer: Consumer) -> Consumer:
    """Another one of the group, that reads on without being noted."""
    return Consumer(consumer.peer, consumer.group, consumer.topic, len(consumer.at))
