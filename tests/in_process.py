"""Rebuilds in this process and in memory, by an engine that is as unkind as one may be.

The jobs themselves run, unchanged: plan, scan, link, survey, number, build, name and publish. What
an engine leaves open (the order of rows after a shuffle, of tasks, where a batch ends, whether a
task runs twice) is drawn from a seed."""

import itertools
import json
import operator
import random
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from unittest import mock

import pyarrow as pa

from reput.jobs.engines.engine import Engine, Row, TaskRows
from reput.jobs.outputs.report import Summary
from reput.jobs.pipeline import stages
from reput.jobs.pipeline.pipeline import Cut
from reput.jobs.rebuild import TRUNCATE, rebuild
from reput.udfs.rebuild import queues
from reput.udfs.staging import Task
from tests.logs import Log
from tests.memory_storage import MemoryStorage

STORE, OUTPUT = "store", "output"
Partitions = list[list[Row]]


@dataclass
class Session(Engine):
    """An engine without processes."""

    seed: int = 0
    cores: int = 2
    rows_collected: int = 0  # what came to the driver, over all queries
    rows_shuffled: int = 0
    tasks_run_twice: int = 0

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)
        # with several machines, short runs take their bytes along
        self.most_cores, self.one_machine = self.cores, self.seed % 4 < 2
        # up to how many entries a queue is small, and how many runs are looked at at once
        self.small = ((1 << 12, 1 << 15), (0, 1), (6, 3))[self.seed % 3]

    def numbers(self, numbers: range, parts: int | None = None) -> "Made":
        parts = max(1, min(len(numbers), parts or len(numbers)))
        rows = [{"id": number} for number in numbers]
        cuts = [len(rows) * i // parts for i in range(parts + 1)]
        made = [rows[a:b] for a, b in itertools.pairwise(cuts)]
        return Made(self, lambda: made, pa.schema([pa.field("id", pa.int64(), nullable=False)]))

    def table(self, rows: pa.Table, parts: int) -> "Made":
        return Made(self, lambda: [rows.to_pylist()], rows.schema)

    def share_done(self) -> float | None:
        return None


@dataclass(frozen=True)
class Made(TaskRows):
    """Rows in partitions: nothing runs before collect."""

    engine: Session
    partitions: Callable[[], Partitions]
    schema: pa.Schema

    def _then(self, change: Callable[[Partitions], Partitions], schema: pa.Schema) -> "Made":
        return Made(self.engine, lambda: change(self.partitions()), schema)

    def run(self, task: Task, columns: pa.Schema) -> "Made":
        given, rng = self.schema, self.engine.random

        def once(rows: list[Row]) -> list[Row]:
            out: list[Row] = []
            for batch in task(_batches(rows, given, rng)):
                assert batch.schema.equals(columns), f"{batch.schema} is not {columns}"
                out += batch.to_pylist()
            return out

        def run(partitions: Partitions) -> Partitions:
            done: Partitions = [[] for _ in partitions]
            for number in rng.sample(range(len(partitions)), len(partitions)):
                if rng.random() < 0.1:  # an attempt whose rows are never seen
                    once(partitions[number])
                    self.engine.tasks_run_twice += 1
                done[number] = once(partitions[number])
            return done

        return self._then(run, columns)

    def by_key(self, parts: int, key: Sequence[str], order: Sequence[str]) -> "Made":
        def change(partitions: Partitions) -> Partitions:
            out: Partitions = [[] for _ in range(parts)]
            rows = [row for rows in partitions for row in rows]
            self.engine.rows_shuffled += len(rows)
            self.engine.random.shuffle(rows)
            for row in rows:
                out[zlib.crc32(repr([row[name] for name in key]).encode()) % parts].append(row)
            return [sorted(rows, key=operator.itemgetter(*key, *order)) for rows in out]

        return self._then(change, self.schema)

    def also(self, other: TaskRows) -> "Made":
        assert isinstance(other, Made)
        assert self.schema == other.schema
        there = other.partitions
        return self._then(lambda p: p + there(), self.schema)

    def extremes(
        self, key: Sequence[str], greatest: Sequence[str] = (), least: Sequence[str] = ()
    ) -> "Made":
        def change(partitions: Partitions) -> Partitions:
            groups: dict[tuple[Any, ...], list[Row]] = {}
            for row in (row for rows in partitions for row in rows):
                groups.setdefault(tuple(row[name] for name in key), []).append(row)
            return [[
                {
                    **dict(zip(key, of, strict=True)),
                    **{name: max(row[name] for row in rows) for name in greatest},
                    **{name: min(row[name] for row in rows) for name in least},
                }
                for of, rows in groups.items()
            ]]  # fmt: skip

        columns = [*key, *greatest, *least]
        return self._then(change, pa.schema([self.schema.field(name) for name in columns]))

    def as_table(self) -> pa.Table:
        rows = [row for rows in self.partitions() for row in rows]
        lists = (each for row in rows for each in row.values() if isinstance(each, list))
        self.engine.rows_collected += len(rows) + sum(map(len, lists))
        return pa.Table.from_pylist(rows, self.schema)


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
    files = {f"{STORE}/commitlog/{base:020d}": bytes(segment) for base,
             segment in log.segments.items()}  # fmt: skip
    files[f"{STORE}/config/topics.json"] = json.dumps({"topicConfigTable": topics}).encode()
    return MemoryStorage(files)


def as_text(settings: Mapping[str, Any]) -> dict[str, str]:
    """Settings as a broker's properties file has them."""
    return {n: str(v).lower() if isinstance(v, bool) else str(v) for n, v in settings.items()}


def run(store: str, output: str, session: Session | None = None, **options: Any) -> Summary:
    """reput.jobs.rebuild.rebuild in this process."""
    session = session or Session()
    most, at_once = session.small
    sizes: dict[str, Any] = {"MOST_ENTRIES": most, "_RUNS_AT_ONCE": at_once,
                             "_ENTRIES_AT_ONCE": 4 * at_once,
                             "CARRIED_ENTRIES": (1 << 20, most)[session.seed % 2]}  # fmt: skip
    with (
        mock.patch.multiple(queues, **sizes),
        mock.patch.multiple(stages, _PIECES_A_TASK=1, _TASKS_A_CORE=1 + session.seed % 3),
    ):
        return rebuild(session, store, output, **options)


def rebuild_log(
    log: Log, cut: Cut | None = None, session: Session | None = None, on_damage: str = TRUNCATE,
    storage: MemoryStorage | None = None,
) -> Rebuilt:  # fmt: skip
    """reput.jobs.rebuild.rebuild of a drawn log; nothing but its output is left behind."""
    storage = storage or storage_of(log)
    before = dict(storage.files)
    try:
        summary = run(STORE, OUTPUT, session, rocketmq=log.version, settings=as_text(log.settings),
                      on_damage=on_damage, cut=cut, storage=storage)  # fmt: skip
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
