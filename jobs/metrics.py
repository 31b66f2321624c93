"""`reput metrics STORE`: a store's numbers for Prometheus, read from its files alone."""

import argparse
import asyncio
import gc
import math
import os
import socket
import sys
import threading
import time
from collections import Counter, deque
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from typing import Any, TypeVar

from reput.jobs.console.options import (
    DONE,
    TextFile,
    add_broker,
    add_store_path,
    at_least_one,
    host_port,
    seconds,
    setting_layers,
    show,
)
from reput.jobs.console.progress import ShownProgress
from reput.jobs.console.store_there import check_store
from reput.jobs.console.voice import add_output, is_quiet, remark
from reput.store_format.faults import StoreError
from reput.store_format.names import DLQ_PREFIX, RETRY_PREFIX
from reput.store_format.query.inventory import GroupRow, kind_of
from reput.store_format.release.profiles import RELEASES
from reput.store_format.release.settings import SettingError, merge_layers

_Row = TypeVar("_Row")
_Sample = tuple[str, tuple[object, ...], float]  # family, labels, value

_DEFAULT = "127.0.0.1:9557"
_EVERY, _MOST = 15.0, 10_000
_BEGINS = b"# HELP reput_look_seconds "
_EPILOG = f"""\
Names are rocketmq-exporter's where they mean the same, with queueId; the others begin with reput_
(docs/metrics.md). The first look reads the log once, each further one what is new. No lock is
taken, and a broker may use the store meanwhile: it writes groups' offsets every five seconds.

  reput metrics /data/store                                       at http://{_DEFAULT}/metrics
  reput metrics /data/store --listen 0.0.0.0:9557 --every 30s     nothing asks who scrapes
  reput metrics /data/store --textfile /var/lib/node/reput.prom   once, for node_exporter

One line is printed once it answers: `ready ADDRESS`. SIGTERM or ctrl-c ends it, with 0.
exit codes: 0 written, or ended by a signal, 2 wrong usage or no such store, 3 a file or port failed
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = _EPILOG
    add_store_path(parser)
    add_broker(
        parser, f"the release of its broker, {RELEASES[0]} .. {RELEASES[-1]}",
        "one setting by RocketMQ's name; brokerName and brokerClusterName become labels",
    )  # fmt: skip
    add_output(parser)
    where = parser.add_mutually_exclusive_group()
    where.add_argument(
        "--listen", metavar="HOST:PORT", default=_DEFAULT,
        help=f"answer scrapes there (default: {_DEFAULT})",
    )  # fmt: skip
    where.add_argument(
        "--textfile", metavar="FILE.prom",
        help="write a file for node_exporter instead: once, or with --every again and again",
    )  # fmt: skip
    parser.add_argument(
        "--every", type=seconds, metavar="TIME", help="look at the store so often (default: 15s)"
    )
    parser.add_argument(
        "--most-queues", type=at_least_one, default=_MOST, metavar="N",
        help="so many queues, topics, and queues of groups, the furthest behind first; "
        f"reput_left_out counts the others (default: {_MOST:,})",
    )  # fmt: skip


def run(arguments: argparse.Namespace) -> int:
    """Look and answer until a signal comes, or write the file once."""
    try:
        from prometheus_client import generate_latest
    except ModuleNotFoundError:
        raise SettingError(
            "metrics needs the package prometheus-client: pip install 'reput[metrics]'"
        ) from None
    settings = merge_layers(*setting_layers(arguments))
    check_store(arguments.store, settings)
    path = arguments.textfile
    out = (
        _Server(arguments.listen)
        if path is None
        else TextFile(path, arguments.store, settings, _BEGINS)
    )
    with suppress(KeyboardInterrupt):
        looked = Looked(arguments.store, arguments.rocketmq, settings, arguments.most_queues)
        with closing(looked.watch):
            out.give(generate_latest(looked))
            # the command line has Python collect hardly ever: each scrape leaves some circles
            gc.collect()
            gc.freeze()
            gc.set_threshold(700)
            show(arguments, {out.does: [out.where]}, f"{out.does} {out.where}")
            sys.stdout.flush()
            while path is None or arguments.every is not None:
                time.sleep(arguments.every or _EVERY)
                with looked.going_on():
                    looked.look()
                with looked.going_on():
                    out.give(generate_latest(looked))
    return DONE


# ---
# A look at the store as families of samples.

# Each family's help, and its labels after cluster and broker. RMQMetricsCollector of
# rocketmq-exporter adds up queues: its value is a sum, of latencies a maximum, over queueId.
_GROUP = ("group", "topic", "queueId")
SERIES: dict[str, tuple[str, tuple[str, ...]]] = {
    "reput_look_seconds": ("How long the last look at the store took", ()),
    "reput_look_timestamp_seconds": ("When the last look ended that found all", ()),
    "reput_failures_total": ("Looks that an error ended: values stay as before", ()),
    "reput_bytes_read": ("Bytes of files that the last look read", ()),
    "reput_bytes_read_total": ("Bytes of files read", ()),
    "reput_left_out": ("What has no series: --most-queues, or a name like another's", ("what",)),
    "rocketmq_producer_offset": ("Position after a queue's last message", ("topic", "queueId")),
    "rocketmq_topic_retry_offset": ("The same of a retry topic", ("topic", "queueId")),
    "rocketmq_topic_dlq_offset": ("The same of a group's dead letters", ("group", "queueId")),
    "rocketmq_producer_tps": ("Messages put a second, over the last minute", ("topic",)),
    "rocketmq_producer_message_size": ("Bytes put a second, over the last minute", ("topic",)),
    "reput_topic_messages": ("Messages that the log has", ("topic",)),
    "reput_topic_bytes": ("Bytes of their records", ("topic",)),
    "reput_put_messages_total": ("Messages, with those that have expired meanwhile", ("topic",)),
    "reput_put_bytes_total": ("Bytes of their records", ("topic",)),
    "reput_dead_letters": ("Messages that the log has of a dead-letter topic", ("group",)),
    "rocketmq_group_diff": ("Messages that a group has not consumed", (*_GROUP, "msgModel")),
    "rocketmq_group_retrydiff": ("The same in its retry topic", (*_GROUP, "msgModel")),
    "rocketmq_group_dlqdiff": ("The same in a dead-letter topic", (*_GROUP, "msgModel")),
    "rocketmq_consumer_offset": ("The position that a group consumes next", _GROUP),
    "rocketmq_group_get_latency_by_storetime": ("Milliseconds since that was stored", _GROUP),
    "reput_group_lag_seconds": ("Time from then to the log's last message", _GROUP),
    "reput_broadcast_diff": ("Messages before a broadcast group's slowest client", _GROUP),
    "reput_broadcast_lag_seconds": ("As reput_group_lag_seconds", _GROUP),
    "reput_waiting_messages":
        ("Delayed by level or timer, or half; late: due before the log's end", ("kind", "late")),
    "reput_damaged_places": ("Where the log's records break off and go on behind", ()),
    "reput_newest_timestamp_seconds": ("When the log's last message was stored", ()),
    "rocketmq_brokeruntime_earliest_message_timestamp": ("When its first was, in ms", ()),
    "rocketmq_brokeruntime_commitlog_minoffset": ("Where the log begins", ()),
    "rocketmq_brokeruntime_commitlog_maxoffset": ("Where its last message ends", ()),
    "rocketmq_brokeruntime_commitlog_disk_ratio": ("How full the store's disk is", ()),
    "reput_disk_free_bytes": ("Free bytes of the store's disk", ()),
    "reput_disk_left_hours": ("Until it is full as the log grows, if nothing is deleted", ()),
}  # fmt: skip
_USUAL = "rocketmq_producer_offset", "rocketmq_group_diff"
_NAMES = {  # by kind_of their topic
    "retry": ("rocketmq_topic_retry_offset", "rocketmq_group_retrydiff"),
    "dlq": ("rocketmq_topic_dlq_offset", "rocketmq_group_dlqdiff"),
}
_RATES_SECONDS, _DISK_SECONDS, _DISK_LEAST = 60.0, 3600.0, 600.0
_LABEL_MOST = 255
_CLUSTERING = 1  # MessageModel.CLUSTERING.ordinal()
_BROADCAST = "@broadcast"  # ends the group whose offsets BroadcastOffsetManager keeps


class Looked:
    """A store as a collector of prometheus-client, as of the last look."""

    def __init__(
        self, path: str, rocketmq: str | None, settings: Mapping[str, str], most: int
    ) -> None:
        """Looks for the first time. Raises StoreError, SettingError, UnknownRelease, OSError."""
        from reput.jobs.opening.questions import notes_with, open_store
        from reput.store_format.fate.watch import Watch
        from reput.store_format.files.adapters import CountedReads
        from reput.store_format.files.by_url import storage_for

        files: Any = CountedReads(storage_for(path))

        def again() -> Any:
            return open_store(path, rocketmq=rocketmq, settings=settings, storage=files)._opened

        shows = None if is_quiet() or os.path.sameopenfile(1, 2) else ShownProgress()
        self.watch, self._files = Watch(again, notes_with(shows, remark)), files
        name = settings.get("brokerName") or socket.gethostname()  # as BrokerConfig
        self._broker = settings.get("brokerClusterName", "DefaultCluster"), name
        self._most, self._left = most, Counter[str]()
        self._puts = deque[tuple[float, dict[str, tuple[int, int]]]]()
        self._ends = deque[tuple[float, int]]()
        self._failures = self._read = 0
        self._took = self._ended = self._now = 0.0
        self._failing = False
        self.look()

    @contextmanager
    def going_on(self) -> Iterator[None]:
        """Count an error of files, say the first of several, and go on."""
        try:
            yield
        except (StoreError, OSError) as error:
            self._failures += 1
            if not self._failing:
                remark(f"{error}; it is tried again")
            self._failing = True

    def look(self) -> None:
        """Bring all up to now. Raises StoreError, OSError; then values stay as they were."""
        begun, read = time.monotonic(), self._files.read
        try:
            self.watch.look()
        finally:
            self._read = self._files.read - read
        now = self._now = time.monotonic()
        self._took, self._ended, self._failing = now - begun, time.time(), False
        _keep(self._puts, now, dict(self.watch.put), _RATES_SECONDS)
        _keep(self._ends, now, self.watch.log_end, _DISK_SECONDS)

    def collect(self) -> list[Any]:
        """All families, in the order of SERIES."""
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

        found: dict[str, Any] = {}
        for name, (text, own) in SERIES.items():
            made = CounterMetricFamily if name.endswith("_total") else GaugeMetricFamily
            found[name] = made(name, text, labels=("cluster", "broker", *own))
        seen, self._left = set[tuple[str, ...]](), Counter()
        for name, values, value in self._samples():
            labels = tuple(map(_label, (*self._broker, *values)))
            if (name, *labels) in seen:
                self._left["names"] += 1
            else:
                seen.add((name, *labels))
                found[name].add_metric(labels, value)
        return list(found.values())

    def _samples(self) -> Iterator[_Sample]:
        watch = self.watch
        yield "reput_look_seconds", (), self._took
        yield "reput_look_timestamp_seconds", (), self._ended
        yield "reput_failures_total", (), self._failures
        yield "reput_bytes_read", (), self._read
        yield "reput_bytes_read_total", (), self._files.read
        # topics of applications come first where not all are shown
        ends = sorted((kind_of(at[0]) != "normal", at, end) for at, end in watch.ends().items())
        for _, (topic, queue), end in self._most_of(ends, "queues"):
            name, _ = _NAMES.get(kind_of(topic), _USUAL)
            yield name, (topic.removeprefix(DLQ_PREFIX), queue), end
        yield from self._of_topics()
        behind = sorted(watch.groups, key=lambda each: (-each.lag, each[:3]))
        for each in self._most_of(behind, "group queues"):
            group = each.group.removesuffix(_BROADCAST)
            yield from self._of_group(each, (group, each.topic, each.queue_id))
        for kind in ("level", "timer", "half"):
            for late in (False, True):
                yield "reput_waiting_messages", (kind, str(late).lower()), watch.waiting[kind, late]
        yield "reput_damaged_places", (), watch.damaged
        if watch.oldest >= 0:
            yield "reput_newest_timestamp_seconds", (), watch.newest / 1000
            yield "rocketmq_brokeruntime_earliest_message_timestamp", (), watch.oldest
        yield "rocketmq_brokeruntime_commitlog_minoffset", (), watch.log.start
        yield "rocketmq_brokeruntime_commitlog_maxoffset", (), watch.log_end
        with suppress(OSError):  # it may be on no disk of this machine
            yield from self._of_disk(os.statvfs(watch.log.segments[-1].path))
        for what in ("queues", "topics", "group queues", "names"):
            yield "reput_left_out", (what,), self._left[what]

    def _of_topics(self) -> Iterator[_Sample]:
        held, (then, before), now = self.watch.held(), self._puts[0], self._now
        puts = sorted((kind_of(topic) != "normal", topic) for topic in self.watch.put)
        for _, topic in self._most_of(puts, "topics"):
            (messages, size), (put, put_bytes) = held.get(topic, (0, 0)), self.watch.put[topic]
            yield "reput_topic_messages", (topic,), messages
            yield "reput_topic_bytes", (topic,), size
            yield "reput_put_messages_total", (topic,), put
            yield "reput_put_bytes_total", (topic,), put_bytes
            if topic.startswith(DLQ_PREFIX):
                yield "reput_dead_letters", (topic.removeprefix(DLQ_PREFIX),), messages
            elif now > then and not topic.startswith(RETRY_PREFIX):
                names = "rocketmq_producer_tps", "rocketmq_producer_message_size"
                sums = zip(names, self.watch.put[topic], before.get(topic, (0, 0)), strict=True)
                for name, after, was in sums:  # less in another store
                    yield name, (topic,), max(after - was, 0) / (now - then)

    def _of_group(self, each: GroupRow, labels: tuple[object, ...]) -> Iterator[_Sample]:
        behind = each.lag_seconds
        if each.group.endswith(_BROADCAST):
            yield "reput_broadcast_diff", labels, each.lag
            if behind is not None:
                yield "reput_broadcast_lag_seconds", labels, behind
            return
        _, name = _NAMES.get(kind_of(each.topic), _USUAL)
        yield name, (*labels, _CLUSTERING), each.lag
        yield "rocketmq_consumer_offset", labels, each.consumer_offset
        if behind is not None:
            yield "reput_group_lag_seconds", labels, behind
            late = max((self._ended + behind) * 1000 - self.watch.newest, 0) if each.lag > 0 else 0
            yield "rocketmq_group_get_latency_by_storetime", labels, late

    def _of_disk(self, disk: os.statvfs_result) -> Iterator[_Sample]:
        watch, used = self.watch, disk.f_blocks - disk.f_bfree
        free = disk.f_bavail * disk.f_frsize
        yield "rocketmq_brokeruntime_commitlog_disk_ratio", (), used / (used + disk.f_bavail or 1)
        yield "reput_disk_free_bytes", (), free
        grown, took = watch.log_end - self._ends[0][1], self._now - self._ends[0][0]
        if took < _DISK_LEAST:  # over all that the log has
            grown, took = watch.log_end - watch.log.start, (watch.newest - watch.oldest) / 1000
        left = free / grown * took / 3600 if grown > 0 and took > 0 else math.inf
        yield "reput_disk_left_hours", (), left

    def _most_of(self, rows: list[_Row], what: str) -> list[_Row]:
        self._left[what] += max(len(rows) - self._most, 0)
        return rows[: self._most]


def _keep(kept: deque[tuple[float, _Row]], now: float, value: _Row, seconds: float) -> None:
    """Keep the values of these last seconds, a dozen at most, and one that is as old."""
    if not kept or now - kept[-1][0] >= seconds / 12:
        kept.append((now, value))
    while len(kept) > 1 and kept[1][0] <= now - seconds:
        kept.popleft()


def _label(value: object) -> str:
    """A label's value of what may be any text: on one line, without half surrogate pairs."""
    text = str(value)[:_LABEL_MOST].encode("utf-8", "replace").decode()
    return "".join(each if each.isprintable() else "\ufffd" for each in text)


# ---
# Where the text goes where no file is named: to whoever scrapes.

_CLIENTS_MOST = 64  # at once; a new one takes the place of the oldest
_CLIENT_SECONDS = 10.0  # from its first byte to its last
_HEAD_MOST = 1 << 14


class _Server:
    """Answers `GET /metrics` with what the last look found: it reads no file, and waits for nobody.
    It has a thread of its own.
    """

    does = "ready"

    def __init__(self, listen: str) -> None:
        """Takes the port; it answers once it has a text. Raises SettingError, OSError."""
        host, port = host_port("--listen", listen)
        self._text, self._clients = b"", dict[asyncio.Task[Any], None]()  # oldest first
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        try:
            self._socket = socket.create_server((host, port), family=family)
        except OSError as error:
            raise OSError(f"--listen {listen}: {os.strerror(error.errno or 0)}") from None
        self.where = f"{listen.rpartition(':')[0]}:{self._socket.getsockname()[1]}"

    def give(self, text: bytes) -> None:
        begun, self._text = bool(self._text), text
        if not begun:
            threading.Thread(target=asyncio.run, args=[self._serve()], daemon=True).start()

    async def _serve(self) -> None:
        server = await asyncio.start_server(self._client, sock=self._socket, limit=_HEAD_MOST)
        await server.serve_forever()

    async def _client(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._clients[task] = None
        if len(self._clients) > _CLIENTS_MOST:
            oldest = next(iter(self._clients))
            del self._clients[oldest]
            oldest.cancel()
        wrong = (OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, TimeoutError)
        try:
            with suppress(*wrong, asyncio.CancelledError):
                async with asyncio.timeout(_CLIENT_SECONDS):
                    head = await reader.readuntil(b"\r\n\r\n")
                    writer.write(self._answer(*head.split(b" ", 2)[:2]))
                    await writer.drain()
                    writer.close()
                    await writer.wait_closed()
        finally:
            self._clients.pop(task, None)
            writer.transport.abort()

    def _answer(self, method: bytes, target: bytes = b"") -> bytes:
        status, text = b"200 OK", self._text
        if method not in (b"GET", b"HEAD"):
            status, text = b"405 Method Not Allowed", b"GET and HEAD alone\n"
        elif target.partition(b"?")[0] != b"/metrics":
            status, text = b"404 Not Found", b"there is /metrics alone\n"
        head = b"HTTP/1.0 %s\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\n" % status
        head += b"Content-Length: %d\r\nConnection: close\r\n\r\n" % len(text)
        return head + (b"" if method == b"HEAD" else text)
