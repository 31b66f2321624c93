"""The report of a comparison, for --json and as text for people."""

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from reput.jobs.comparing.contents import ConfigsDiffer, Found, Named, OffsetDiffers
from reput.jobs.comparing.logs import Parting, Side, There
from reput.jobs.console.voice import safe, time_text
from reput.jobs.outputs.report import counted, plural
from reput.store_format.log.groups import Epoch

# ---
# The report of a comparison, for the console and --json.

SAME, BEHIND, AHEAD, PARTED, DAMAGED = "same", "behind", "ahead", "parted", "damaged"
APART = "apart"


@dataclass
class Epochs:
    """Both epoch files. point: physical offset of the slave's cut; -1: none; None: unknown."""

    ours: tuple[Epoch, ...] | None = None
    theirs: tuple[Epoch, ...] | None = None
    point: int | None = None
    notes: list[str] = field(default_factory=list)

    @property
    def differ(self) -> bool:
        return self.ours != self.theirs


@dataclass
class Comparison:
    """One store (theirs) compared with the first store (ours). Offsets are physical."""

    ours: Side
    theirs: Side
    parting: Parting
    there: tuple[There, There] | None
    found: tuple[Found, Found]
    configs: ConfigsDiffer
    epochs: Epochs

    @property
    def at(self) -> int | None:
        """The begin of the first record that differs or that only one store has; None for none."""
        if self.there is None:
            return None
        return min(there.physical_offset for there in self.there)

    @property
    def verdict(self) -> str:
        """The relation of the other log to the first: SAME, BEHIND, AHEAD, PARTED, DAMAGED, APART.

        DAMAGED: bytes differ, but not up to the end of either log; else PARTED. APART: the logs
        have no physical offset in common.
        """
        parting = self.parting
        if self.apart:
            return APART
        if not parting.spans:
            return SAME
        if not parting.unlike:
            if parting.ours and parting.theirs:
                return PARTED
            return BEHIND if parting.ours else AHEAD
        common = min(self.ours.end, self.theirs.end)
        alike_after = parting.unlike[-1][1] < common
        lacks = any(found.count("only") for found in self.found)
        return DAMAGED if alike_after and not lacks else PARTED

    @property
    def apart(self) -> bool:
        """Whether one log ends before the other begins, so that nothing of them is compared."""
        ours, theirs = self.ours, self.theirs
        share = max(ours.start, theirs.start) < min(ours.end, theirs.end)
        return not share and ours.start != theirs.start

    @property
    def same(self) -> bool:
        """Whether nothing differs in logs and config/. The starts of the logs do not count."""
        return not (self.apart or self.parting.spans or self.configs or self.epochs.differ)

    def as_json(self) -> dict[str, Any]:
        """The content of --json for one pair; `ours` is the first store."""
        return {
            "ours": self.ours.path,
            "theirs": self.theirs.path,
            "same": self.same,
            "log": self.verdict,
            "at": self.at,
            "first_byte": self.parting.first,
            "unlike": self.parting.unlike,
            "only_ours": self.parting.ours,
            "only_theirs": self.parting.theirs,
            "there": None if self.there is None else [each._asdict() for each in self.there],
            "messages": [
                {**found.as_json(), "first": [json.loads(line) for line in found.first]}
                for found in self.found
            ],
            "epochs": {
                "ours": self.epochs.ours, "theirs": self.epochs.theirs, "point": self.epochs.point,
            },
            "topics": vars(self.configs.topics),
            "groups": vars(self.configs.groups),
            "offsets": [each._asdict() for each in self.configs.offsets],
            "delays": self.configs.delays,
            "notes": [*self.configs.notes, *self.epochs.notes],
        }  # fmt: skip


@dataclass
class CompareReport:
    """The comparison of several stores with the first one."""

    sides: list[Side]
    pairs: list[Comparison]
    seconds: float = 0.0

    @property
    def same(self) -> bool:
        """Whether no store differs from the first."""
        return all(pair.same for pair in self.pairs)

    def as_json(self) -> dict[str, Any]:
        return {
            "same": self.same,
            "stores": [
                {
                    "store": side.path,
                    "start": side.start,
                    "end": side.end,
                    "segment_bytes": side.plan.splits.segment_bytes,
                    "in_use": side.plan.in_use,
                    "tail": None if side.tail is None else side.tail._asdict(),
                    "notes": side.notes,
                }
                for side in self.sides
            ],
            "compared": [pair.as_json() for pair in self.pairs],
            "seconds": self.seconds,
        }


# ---
# A comparison's report for people.

_SHOWN, _MOST = 3, 20  # lines of a kind, without -v and with it
_FIRST = "master"
Names = tuple[str, str]  # what the two stores are called


def text(report: CompareReport) -> str:
    lines: list[str] = []
    for number, pair in enumerate(report.pairs, start=1):
        names = _FIRST, "slave" if len(report.pairs) == 1 else f"slave {number}"
        lines += _summary(pair, names)
    lines.append(f"  {report.seconds:.1f} s")
    return "\n".join(lines)


def details(report: CompareReport) -> list[str]:
    lines = []
    for number, pair in enumerate(report.pairs, start=1):
        slave = "slave" if len(report.pairs) == 1 else f"slave {number}"
        for start, end in pair.parting.unlike[:_MOST]:
            lines.append(f"  unlike    bytes from {start:,}, up to {end:,} or a little before")
        for name, found in zip((_FIRST, slave), pair.found, strict=True):
            for queue in found.queues[:_MOST]:
                lines.append(
                    f"  queue     {name} {queue.kind}: {safe(queue.topic)}/{queue.queue_id}, "
                    f"{counted(queue.messages, 'message')}, queueOffsets {queue.least:,} to "
                    f"{queue.greatest:,}, stored {time_text(queue.oldest)} to "
                    f"{time_text(queue.newest)}"
                )
        lines += _config_details(pair.configs, (_FIRST, slave))
    return lines


def _summary(pair: Comparison, names: Names) -> Iterator[str]:
    ours, theirs = names
    stores = f"{pair.ours.path} ({ours}) with {pair.theirs.path} ({theirs})"
    yield f"compared {stores}: {_verdict(pair, theirs)}"
    for name, side in zip(names, (pair.ours, pair.theirs), strict=True):
        yield from _log_lines(name, side)
    yield from _begins(pair, names)
    sizes = [side.plan.splits.segment_bytes for side in (pair.ours, pair.theirs)]
    if sizes[0] != sizes[1]:
        yield (
            f"  sizes     segments of {sizes[0]:,} bytes and of {sizes[1]:,}: from the end of the "
            "first shorter one on, records stand at other offsets, and are compared by content"
        )
    if pair.there is not None:
        for name, there in zip(names, pair.there, strict=True):
            yield f"  {_label(name)}at {there.physical_offset:,}: {_there(there)}"
    yield from _choices(pair, names)
    yield from _epochs(pair, names)
    yield from _configs(pair.configs, names)
    for note in (*pair.configs.notes, *pair.epochs.notes):
        yield f"  note      {safe(note)}"
    yield from _next(pair, names)


def _label(name: str) -> str:
    return f"{name:<10}"


def _verdict(pair: Comparison, theirs: str) -> str:
    verdict, first = pair.verdict, pair.at or 0
    if verdict == APART:
        return "they have no byte in common, and nothing was compared"
    if verdict == SAME:
        return "the same" if pair.same else "the logs are the same"
    if verdict in (BEHIND, AHEAD):
        found = pair.found[0 if verdict == BEHIND else 1]
        many = abs(pair.ours.end - pair.theirs.end)
        messages = counted(sum(found.count(kind) for kind in ("only", "again")), "message")
        return f"{theirs} is {verdict} by {many:,} bytes, {messages}"
    if verdict == DAMAGED:
        return f"bytes differ from {first:,} on, but both have every message"
    return f"they PART at {first:,}"


def _log_lines(name: str, side: Side) -> Iterator[str]:
    yield f"  {_label(name)}log from {side.start:,} to {side.end:,}"
    if side.tail is not None:
        stale = ""
        if side.tail.record >= 0:
            stale = (
                f"; whole records follow from {side.tail.record:,} on: a stale tail, or damage "
                f"before them (reput check {side.path})"
            )
        yield f"  tail      {name} has bytes after that, up to {side.tail.end:,}{stale}"
    for note in side.notes:
        yield f"  note      {safe(note)}"


def _begins(pair: Comparison, names: Names) -> Iterator[str]:
    sides = pair.ours, pair.theirs
    first = 0 if sides[0].start < sides[1].start else 1
    missing = sides[1 - first].start - sides[first].start
    if missing and not pair.apart:
        yield (
            f"  begins    {names[first]} has {missing:,} bytes more at its beginning, which "
            f"{names[1 - first]} does not have any more: they are not compared"
        )


def _there(there: There) -> str:
    if there.message is None:
        return there.reason
    wrong = f"; {there.reason}" if there.reason else ""
    return f"{message_text(there.message)}{wrong}"


def message_text(line: dict[str, Any]) -> str:
    """One message in words. line: from `message_line`."""
    known = f"id {safe(line['uniqueKey'])}, " if line["uniqueKey"] else ""
    return (
        f"{safe(line['topic'])}/{line['queueId']} at queueOffset {line['queueOffset']:,}, {known}"
        f"{counted(line['keys'], 'key')}, stored {time_text(line['storeTimestamp'])}"
    )


def _choices(pair: Comparison, names: Names) -> Iterator[str]:
    """Lines on the messages that would be lost if only one of the two stores were kept."""
    if pair.apart:
        yield "  keep      both: which messages only one of them has is not known"
        return
    if not pair.parting.spans:
        return
    for kept in (0, 1):
        other = pair.found[1 - kept]
        lost, system = other.count("only", False), other.count("only", True)
        if not (lost or system):
            yield f"  keep      {names[kept]}: no message is lost{_but_earlier(pair, kept)}"
            continue
        also = f", and {counted(system, 'record')} of system topics" if system else ""
        yield (
            f"  keep      {names[kept]}: {counted(lost, 'message')} would be lost that only "
            f"{names[1 - kept]} has ({_by_topic(other)}){also}"
        )
    for kind, what in (
        ("again", "both have, at other positions of their queues (sent or stored again)"),
        ("damaged", "are damaged there and whole in the other"),
    ):
        for name, found in zip(names, pair.found, strict=True):
            if found.count(kind):
                yield f"  {kind:<10}{counted(found.count(kind), 'message')} of {name} {what}"


def _but_earlier(pair: Comparison, kept: int) -> str:
    """Words about what only the store that is not kept has at its beginning."""
    begins = [side.start for side in (pair.ours, pair.theirs)]
    earlier = begins[1 - kept] < begins[kept]
    return f" but those before {begins[kept]:,}" if earlier else ""


def _by_topic(found: Found) -> str:
    many = Counter[str]()
    for queue in found.of_kind("only"):
        many[queue.topic] += queue.messages
    shown = [f"{safe(topic)} {count:,}" for topic, count in many.most_common(_SHOWN)]
    more = len(many) - len(shown)
    return ", ".join([*shown, *([f"{more:,} more {plural('topic')}"] if more else [])])


def _epochs(pair: Comparison, names: Names) -> Iterator[str]:
    epochs = pair.epochs
    if epochs.ours is None and epochs.theirs is None:
        return
    for name, found in zip(names, (epochs.ours, epochs.theirs), strict=True):
        shown = "none" if found is None else " ".join(
            f"{epoch.number}-{epoch.start}" for epoch in found[-_SHOWN:]
        )  # fmt: skip
        before = "... " if found and len(found) > _SHOWN else ""
        if epochs.differ:
            yield f"  epochs    {name}: {before}{shown}"
    if epochs.point is None:
        return
    first = pair.at
    if epochs.point < 0:
        yield "  epochs    have none in common: RocketMQ would copy the whole log again"
    elif first is not None and epochs.point > first:
        yield (
            f"  epochs    by them RocketMQ cuts a slave at {epochs.point:,}, after {first:,} "
            "where the logs part: it would keep bytes that differ"
        )
    elif first is not None:
        yield f"  epochs    by them RocketMQ cuts a slave at {epochs.point:,}"


def _configs(configs: ConfigsDiffer, names: Names) -> Iterator[str]:
    for label, what, named in (
        ("topics", "topic", configs.topics), ("groups", "group", configs.groups),
    ):  # fmt: skip
        if named:
            yield f"  {_label(label)}{'; '.join(_named(what, named, names))}"
    if configs.offsets:
        yield f"  offsets   {'; '.join(_offsets(configs.offsets, names))}"
    if configs.delays:
        yield f"  delays    {counted(len(configs.delays), 'level')} of delayOffset.json differ"


def _named(what: str, named: Named, names: Names) -> Iterator[str]:
    for name, only in zip(names, (named.only_ours, named.only_theirs), strict=True):
        if only:
            yield f"{counted(len(only), what)} only {name} has ({_few(only)})"
    if named.differ:
        yield f"{counted(len(named.differ), what)} differently configured ({_few(named.differ)})"


def _few(words: Any) -> str:
    shown = [safe(word) for word in list(words)[:_SHOWN]]
    return ", ".join([*shown, *(["..."] if len(words) > _SHOWN else [])])


def _offsets(rows: Sequence[OffsetDiffers], names: Names) -> Iterator[str]:
    groups = len({row.group for row in rows})
    yield f"consumer offsets of {counted(len(rows), 'queue')} in {counted(groups, 'group')} differ"
    for name, count in (
        (names[0], sum((row.ours or 0) < (row.theirs or 0) for row in rows)),
        (names[1], sum((row.theirs or 0) < (row.ours or 0) for row in rows)),
    ):
        if count:
            yield f"{name} has the lower in {count:,}"


def _config_details(configs: ConfigsDiffer, names: Names) -> Iterator[str]:
    for what, named in (("topic", configs.topics), ("group", configs.groups)):
        for name, fields in list(named.differ.items())[:_MOST]:
            shown = ", ".join(f"{f} {a!r} and {b!r}" for f, (a, b) in fields.items())
            yield safe(f"  {what:<10}{name}: {shown}")
    for row in configs.offsets[:_MOST]:
        yield safe(
            f"  offset    {row.group}, {row.topic}/{row.queue_id}: {names[0]} {_said(row.ours)}, "
            f"{names[1]} {_said(row.theirs)}"
        )


def _said(offset: int | None) -> str:
    return "none" if offset is None else f"{offset:,}"


def _next(pair: Comparison, names: Names) -> Iterator[str]:
    lost = [found.count("only") for found in pair.found]
    if pair.apart:
        return
    if all(lost):
        yield "  next      --messages FILE lists what either choice loses, message by message"
        yield (
            f"  next      reput convert {pair.ours.path} --merge {pair.theirs.path} "
            "--meet renumber --output DIR keeps what either has"
        )
    elif any(lost):
        kept = 0 if lost[0] else 1
        yield (
            f"  next      keep {names[kept]}: it has all that {names[1 - kept]} has"
            f"{_but_earlier(pair, kept)}"
        )
