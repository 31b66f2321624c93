"""Compares topics, subscription groups and offsets in the config/ of two stores."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from reput.jobs.comparing.side import Side
from reput.store_format.discover.config import (
    Offsets,
    config_table,
    configured_topics,
    consumer_offsets,
    subscription_groups,
)
from reput.store_format.notes import Notes

_DELAY_FILE, _DELAY_TABLE = "delayOffset.json", "offsetTable"  # ScheduleMessageService


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
    for name, look in (("topics", configured_topics), ("groups", subscription_groups)):
        tables = [look(side.plan.storage, side.path, notes) for side in (ours, theirs)]
        if tables[0] is not None and tables[1] is not None:
            setattr(found, name, _named(tables[0], tables[1]))
        else:
            _note_missing(found, name, tables, (ours, theirs))
    found.offsets = list(
        _offsets(*(consumer_offsets(s.plan.storage, s.path, notes) for s in (ours, theirs)))
    )
    delays = [
        config_table(side.plan.storage, side.path, _DELAY_FILE, _DELAY_TABLE, notes) or {}
        for side in (ours, theirs)
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


def _offsets(ours: Offsets, theirs: Offsets) -> Iterator[OffsetDiffers]:
    for group, topic in sorted({**ours, **theirs}):
        one, other = ours.get((group, topic), {}), theirs.get((group, topic), {})
        for queue_id in sorted({**one, **other}):
            if one.get(queue_id) != other.get(queue_id):
                yield OffsetDiffers(group, topic, queue_id, one.get(queue_id), other.get(queue_id))
