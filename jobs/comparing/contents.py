"""What only one of the compared stores has: messages, topics, groups and offsets."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from reput.jobs.comparing.logs import Side, Span
from reput.jobs.engines.engine import Engine, Row
from reput.jobs.pipeline.stages import stage_by_tasks
from reput.store_format.discover import config
from reput.store_format.names import DELAY_OFFSETS
from reput.store_format.notes import Notes, Progress
from reput.store_format.query.inventory import kind_of
from reput.udfs.compare import logs
from reput.udfs.compare.logs import KINDS as KINDS
from reput.udfs.staging import Staging

# ---
# Finds the messages that only one of two stores has, in the spans where their logs differ.

_SHARE_BYTES = 256 << 20  # bytes of the logs whose fingerprints a task holds
_SHARES_MOST = 256
_SHOWN = 20  # messages of each kind that a report names


@dataclass
class QueueOnly:
    """Messages of one queue that only one store has; times in milliseconds."""

    topic: str
    queue_id: int
    kind: str  # of KINDS
    messages: int = 0
    bytes: int = 0
    least: int = -1  # queueOffsets
    greatest: int = -1
    oldest: int = -1  # storeTimestamps
    newest: int = -1

    def add(self, row: Row) -> None:
        self.messages += row["messages"]
        self.bytes += row["bytes"]
        self.least = _least(self.least, row["least"])
        self.greatest = max(self.greatest, row["greatest"])
        self.oldest = _least(self.oldest, row["oldest"])
        self.newest = max(self.newest, row["newest"])


@dataclass
class Found:
    """The messages of one store in the spans that differ."""

    same: int = 0  # messages that both stores have at the same position of a queue
    queues: list[QueueOnly] = field(default_factory=list)
    first: list[str] = field(default_factory=list)  # JSON of the first messages
    lines: list[str] = field(default_factory=list)  # staging files, in the log's order

    def of_kind(self, kind: str) -> list[QueueOnly]:
        return [queue for queue in self.queues if queue.kind == kind]

    def count(self, kind: str, system: bool | None = None) -> int:
        """Number of messages of a kind; system: only of system topics, or only of others."""
        return sum(
            queue.messages
            for queue in self.of_kind(kind)
            if system in (None, kind_of(queue.topic) == "system")
        )

    def as_json(self) -> dict[str, Any]:
        return {
            "same": self.same,
            **{kind: self.count(kind) for kind in KINDS},
            "queues": [vars(queue) for queue in self.queues],
        }


def find_messages(
    engine: Engine, staging: Staging, sides: tuple[Side, Side], spans: Sequence[Span],
    progress: Progress, lines: bool,
) -> tuple[Found, Found]:  # fmt: skip
    """The messages in the spans that only one of two sides has, for each side.

    lines: whether to write all of these messages as JSON lines too.
    Raises StoreChanged, OSError, EngineFailed.
    """
    walks = logs.Walks(tuple(side.log for side in sides), tuple(walks_of(sides, spans)))
    count = len(walks.walks)
    found = Found(), Found()
    if not count:
        return found
    total = sum(min(b, side.end) - max(a, side.start)
                for side in sides for a, b in spans if a < side.end)  # fmt: skip
    shares = min(max(-(-total // _SHARE_BYTES), 1), _SHARES_MOST)
    numbers = range(count)
    with stage_by_tasks(engine, progress, "matched messages", total, "bytes"):
        matched = (
            engine.numbers(numbers)
            .run(logs.ListPrints(walks, staging, shares), logs.LISTED)
            .by_key(shares, ["share"], ["log", "name", "at"])
            .run(logs.MatchPrints(staging, (0, 1)), logs.MATCHED)
            .collect()
        )
    places: tuple[list[tuple[str, int]], ...] = ([], [])
    for row in matched:
        found[row["log"]].same += row["same"]
        if row["count"]:
            places[row["log"]].append((row["name"], row["count"]))
    if any(places):
        described = logs.DescribeMessages(
            walks, staging, tuple(side.path for side in sides), tuple(map(tuple, places)), _SHOWN,
            lines,
        )  # fmt: skip
        with stage_by_tasks(engine, progress, "counted messages", total, "bytes"):
            rows = engine.numbers(numbers).run(described, logs.DESCRIBED).collect()
        _add_up(rows, found)
    return found


def _add_up(rows: list[Row], found: tuple[Found, Found]) -> None:
    queues: dict[tuple[int, str, int, int], QueueOnly] = {}
    for row in sorted(rows, key=lambda row: row["walk"]):
        key = row["log"], row["topic"], row["queue_id"], row["kind"]
        into = queues.setdefault(key, QueueOnly(key[1], key[2], KINDS[key[3]]))
        into.add(row)
        side = found[row["log"]]
        side.first = (side.first + row["first"])[: _SHOWN * len(KINDS)]
        if row["lines"]:
            side.lines.append(row["lines"])
    for key in sorted(queues):
        found[key[0]].queues.append(queues[key])


def walks_of(sides: Sequence[Side], spans: Sequence[Span]) -> Iterator[logs.Walked]:
    """The records of all sides that reach into the spans, segment by segment."""
    for number, side in enumerate(sides):
        for n, segment in enumerate(side.log.segments):
            stop = min(segment.end, side.end)
            here = tuple((max(a, segment.start), min(b, stop))
                         for a, b in spans if a < stop and segment.start < b)  # fmt: skip
            if here:
                yield logs.Walked(number, n, here)


def _least(one: int, other: int) -> int:
    """The lesser of two numbers, of which -1 means unknown."""
    return max(one, other) if min(one, other) < 0 else min(one, other)


# ---
# Compares topics, subscription groups and offsets in the config/ of two stores.


class OffsetDiffers(NamedTuple):
    """The offsets of a group in a queue in both stores; None for a store without that offset."""

    group: str
    topic: str
    queue_id: int
    ours: int | None
    theirs: int | None


@dataclass
class Named:
    """The differing names of a table. differ: name -> field -> (our value, their value)."""

    only_ours: list[str] = field(default_factory=list)
    only_theirs: list[str] = field(default_factory=list)
    differ: dict[str, dict[str, tuple[Any, Any]]] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.only_ours or self.only_theirs or self.differ)


@dataclass
class ConfigsDiffer:
    """The differences of two stores' config/. `ours` is the first store."""

    topics: Named = field(default_factory=Named)
    groups: Named = field(default_factory=Named)
    offsets: list[OffsetDiffers] = field(default_factory=list)
    delays: list[tuple[str, int | None, int | None]] = field(default_factory=list)  # (level, ...)
    notes: list[str] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.topics or self.groups or self.offsets or self.delays)


def compare_configs(ours: Side, theirs: Side) -> ConfigsDiffer:
    """Read and compare config/. A table that one store lacks is not compared, but noted."""
    found = ConfigsDiffer()
    notes = Notes(found.notes.append)
    for name, look in (
        ("topics", config.configured_topics),
        ("groups", config.subscription_groups),
    ):
        tables = [look(side.plan.folder, notes) for side in (ours, theirs)]
        if tables[0] is not None and tables[1] is not None:
            setattr(found, name, _named(tables[0], tables[1]))
        else:
            _note_missing(found, name, tables, (ours, theirs))
    found.offsets = list(
        _offsets(*(config.consumer_offsets(s.plan.folder, notes) for s in (ours, theirs)))
    )
    delays = [
        config.config_table(side.plan.folder, DELAY_OFFSETS, notes) or {} for side in (ours, theirs)
    ]
    found.delays = [
        (level, delays[0].get(level), delays[1].get(level))
        for level in sorted({**delays[0], **delays[1]})
        if delays[0].get(level) != delays[1].get(level)
    ]
    return found


def _note_missing(
    found: ConfigsDiffer, name: str, tables: list[Any], sides: tuple[Side, Side]
) -> None:
    without = [side.path for side, table in zip(sides, tables, strict=True) if table is None]
    if len(without) == 1:
        found.notes.append(f"{without[0]}: config/ has no {name}: they are not compared")


def _named(ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> Named:
    both = sorted(ours.keys() & theirs.keys())
    return Named(
        sorted(ours.keys() - theirs.keys()),
        sorted(theirs.keys() - ours.keys()),
        {name: fields for name in both if (fields := _fields(ours[name], theirs[name]))},
    )


def _fields(ours: Any, theirs: Any) -> dict[str, tuple[Any, Any]]:
    """Field -> (our value, their value) where two JSON values differ; '' for whole values."""
    if not (isinstance(ours, dict) and isinstance(theirs, dict)):
        return {} if ours == theirs else {"": (ours, theirs)}
    names = sorted({**ours, **theirs})
    return {n: (ours.get(n), theirs.get(n)) for n in names if ours.get(n) != theirs.get(n)}


def _offsets(ours: config.Offsets, theirs: config.Offsets) -> Iterator[OffsetDiffers]:
    for group, topic in sorted({**ours, **theirs}):
        one, other = ours.get((group, topic), {}), theirs.get((group, topic), {})
        for queue_id in sorted({**one, **other}):
            if one.get(queue_id) != other.get(queue_id):
                yield OffsetDiffers(group, topic, queue_id, one.get(queue_id), other.get(queue_id))
