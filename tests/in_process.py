"""Rebuilds without Spark: what jobs use of a SparkSession, in this process and in memory.

The jobs themselves run, unchanged: plan, scan, link, survey, number, build, name and publish.
Only Spark is replaced, by as little as partitions, sorts and calls of the functions given to
mapInArrow. What Spark leaves open (the order of rows after a shuffle, of tasks, where a batch
ends, whether a task runs twice) is drawn from a seed.
"""

import itertools
import json
import operator
import random
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any
from unittest import mock

import pyarrow as pa
import pyspark.sql
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from reput.jobs.engine import task_sizes
from reput.jobs.engine.pipeline import Cut
from reput.jobs.engine.summary import Summary
from reput.jobs.rebuild import TRUNCATE, rebuild
from reput.udfs import small_queues
from tests.logs import Log
from tests.memory_storage import MemoryStorage

STORE, OUTPUT = "store", "output"
Row = dict[str, Any]
Partitions = list[list[Row]]


class Conf(dict[str, str]):
    """What the jobs ask of a session's conf."""

    def set(self, name: str, value: str) -> None:
        self[name] = value

    def unset(self, name: str) -> None:
        self.pop(name, None)


@dataclass
class Session:
    """What the jobs ask of a SparkSession."""

    seed: int = 0
    cores: int = 2
    conf: Conf = field(init=False)
    rows_collected: int = 0  # what came to the driver, over all queries
    rows_shuffled: int = 0
    tasks_run_twice: int = 0

    def __post_init__(self) -> None:
        self.conf = Conf({"spark.default.parallelism": str(self.cores), "spark.master": "local[2]"})
        self.random = random.Random(self.seed)
        # up to how many entries a queue is small, and how many runs are looked at at once
        self.small = ((1 << 12, 1 << 15), (0, 1), (6, 3))[self.seed % 3]

    def range(self, start: int, end: int, step: int, partitions: int) -> "Frame":
        numbers = [{"id": number} for number in range(start, end, step)]
        cuts = [len(numbers) * i // partitions for i in range(partitions + 1)]
        made = [numbers[a:b] for a, b in itertools.pairwise(cuts)]
        return Frame(self, lambda: made, pa.schema([pa.field("id", pa.int64(), nullable=False)]))

    def createDataFrame(self, table: pa.Table) -> "Frame":
        return Frame(self, lambda: [table.to_pylist()], table.schema)


class Frame:
    """A lazy table in partitions: nothing runs before toArrow."""

    def __init__(
        self, session: Session, partitions: Callable[[], Partitions], schema: pa.Schema | None
    ) -> None:
        self.session, self.partitions, self.schema = session, partitions, schema
        self.sparkSession = session

    def _then(
        self, change: Callable[[Partitions], Partitions], schema: pa.Schema | None
    ) -> "Frame":
        return Frame(self.session, lambda: change(self.partitions()), schema)

    def mapInArrow(
        self, function: Callable[..., Iterator[pa.RecordBatch]], columns: StructType
    ) -> "Frame":
        given, wanted, rng = self.schema, to_arrow_schema(columns), self.session.random

        def task(rows: list[Row]) -> list[Row]:
            out: list[Row] = []
            for batch in function(_batches(rows, given, rng)):
                assert batch.schema.equals(wanted), f"{batch.schema} is not {wanted}"
                out += batch.to_pylist()
            return out

        def run(partitions: Partitions) -> Partitions:
            done: Partitions = [[] for _ in partitions]
            for number in rng.sample(range(len(partitions)), len(partitions)):
                if rng.random() < 0.1:  # an attempt whose rows are never seen
                    task(partitions[number])
                    self.session.tasks_run_twice += 1
                done[number] = task(partitions[number])
            return done

        return self._then(run, wanted)

    def repartition(self, count: int, *names: str) -> "Frame":
        def change(partitions: Partitions) -> Partitions:
            out: Partitions = [[] for _ in range(count)]
            rows = [row for rows in partitions for row in rows]
            self.session.rows_shuffled += len(rows)
            self.session.random.shuffle(rows)
            for row in rows:
                out[zlib.crc32(repr([row[name] for name in names]).encode()) % count].append(row)
            return out

        return self._then(change, self.schema)

    def sortWithinPartitions(self, *names: str) -> "Frame":
        key = operator.itemgetter(*names)
        return self._then(lambda p: [sorted(rows, key=key) for rows in p], self.schema)

    def unionByName(self, other: "Frame") -> "Frame":
        assert self.schema == other.schema
        return self._then(lambda p: p + other.partitions(), self.schema)

    def where(self, condition: "Column") -> "Frame":
        keeps = condition.of
        return self._then(lambda p: [[r for r in rows if keeps(r)] for rows in p], self.schema)

    def join(self, other: "Frame", names: list[str], how: str) -> "Frame":
        assert how == "left"

        def change(partitions: Partitions) -> Partitions:
            there = {tuple(r[n] for n in names): r for rows in other.partitions() for r in rows}
            return [[{**there.get(tuple(r[n] for n in names), {}), **r} for r in rows]
                    for rows in partitions]  # fmt: skip

        return self._then(change, None)

    def groupBy(self, *names: str) -> "Grouped":
        return Grouped(self, names)

    def agg(self, *columns: "Column") -> "Frame":
        return self.groupBy().agg(*columns)

    def toArrow(self) -> pa.Table:
        rows = [row for rows in self.partitions() for row in rows]
        self.session.rows_collected += len(rows)
        return pa.Table.from_pylist(rows, self.schema) if rows or self.schema else pa.table({})


@dataclass(frozen=True)
class Grouped:
    frame: Frame
    names: tuple[str, ...]

    def agg(self, *columns: "Column") -> Frame:
        def change(partitions: Partitions) -> Partitions:
            groups: dict[tuple[Any, ...], list[Row]] = {} if self.names else {(): []}
            for row in (row for rows in partitions for row in rows):
                groups.setdefault(tuple(row[name] for name in self.names), []).append(row)
            return [[
                {**dict(zip(self.names, key, strict=True)), **{c.name: c.of(g) for c in columns}}
                for key, g in groups.items()
            ]]  # fmt: skip

        return self.frame._then(change, None)


@dataclass(frozen=True)
class Column:
    """An expression over a row, or over a group's rows."""

    of: Callable[[Any], Any]
    name: str = ""

    def alias(self, name: str) -> "Column":
        return Column(self.of, name)

    def isNull(self) -> "Column":
        return Column(lambda row: self.of(row) is None)

    def __or__(self, other: "Column") -> "Column":
        return Column(lambda row: self.of(row) or other.of(row))

    def __gt__(self, other: "Column") -> "Column":
        return Column(lambda row: self.of(row) > other.of(row))


class functions:  # noqa: N801 (stands for the module pyspark.sql.functions)
    @staticmethod
    def col(name: str) -> Column:
        return Column(lambda row: row.get(name))

    @staticmethod
    def max(name: str) -> Column:
        return Column(lambda rows: max((row[name] for row in rows), default=None))

    @staticmethod
    def min(name: str) -> Column:
        return Column(lambda rows: min((row[name] for row in rows), default=None))


def _batches(
    rows: list[Row], schema: pa.Schema | None, rng: random.Random
) -> Iterator[pa.RecordBatch]:
    at = 0
    while at < len(rows):
        count = rng.choice([1, 2, 7, 10_000])
        yield pa.RecordBatch.from_pylist(rows[at : at + count], schema)
        at += count


@dataclass(frozen=True)
class Rebuilt:
    """A summary, and the files published: index files by their order, as `index/0`, ..."""

    summary: Summary
    files: dict[str, bytes]


def storage_of(log: Log) -> MemoryStorage:
    """A store that has this log, and topics as they are."""
    topics = {name: {"attributes": about} for name, about in log.topic_attributes.items()}
    files = {
        f"{STORE}/commitlog/{base:020d}": bytes(segment) for base, segment in log.segments.items()
    }
    files[f"{STORE}/config/topics.json"] = json.dumps({"topicConfigTable": topics}).encode()
    return MemoryStorage(files)


def as_text(settings: Mapping[str, Any]) -> dict[str, str]:
    """Settings as a broker's properties file has them."""
    return {n: str(v).lower() if isinstance(v, bool) else str(v) for n, v in settings.items()}


def run(store: str, output: str, session: Session | None = None, **options: Any) -> Summary:
    """reput.jobs.rebuild.rebuild in this process."""
    session = session or Session()
    most, at_once = session.small
    sizes: dict[str, Any] = {
        "MOST_ENTRIES": most,
        "_RUNS_AT_ONCE": at_once,
        "_ENTRIES_AT_ONCE": 4 * at_once,
    }
    with (
        mock.patch.object(pyspark.sql, "functions", functions),
        mock.patch.multiple(small_queues, **sizes),
        mock.patch.multiple(task_sizes, _PIECES_A_TASK=1, _TASKS_A_CORE=1 + session.seed % 3),
    ):
        return rebuild(session, store, output, **options)  # type: ignore[arg-type]


def rebuild_log(
    log: Log,
    cut: Cut | None = None,
    session: Session | None = None,
    on_damage: str = TRUNCATE,
    storage: MemoryStorage | None = None,
) -> Rebuilt:
    """reput.jobs.rebuild.rebuild of a drawn log; nothing but its output is left behind."""
    storage = storage or storage_of(log)
    before = dict(storage.files)
    try:
        summary = run(
            STORE,
            OUTPUT,
            session,
            rocketmq=log.version,
            settings=as_text(log.settings),
            on_damage=on_damage,
            cut=cut,
            storage=storage,
        )
    except BaseException:
        assert storage.files == before
        raise
    published = {p: c for p, c in storage.files.items() if p.startswith(OUTPUT + "/")}
    assert storage.files.keys() - published.keys() == before.keys()
    return Rebuilt(summary, dict(_by_order(published)))


def _by_order(published: Mapping[str, bytes]) -> Iterable[tuple[str, bytes]]:
    paths = sorted(path.removeprefix(OUTPUT + "/") for path in published)
    index = [path for path in paths if path.startswith("index/")]
    for path in paths:
        name = f"index/{index.index(path)}" if path in index else path
        if "/" in name:
            yield name, published[f"{OUTPUT}/{path}"]
