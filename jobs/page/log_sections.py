"""Sections about the log: what was put when, topics, sizes of messages, damage, derived files."""

from bisect import bisect_left
from collections import defaultdict

from reput.jobs.console.voice import duration
from reput.jobs.judging.report import CheckReport, compared_text
from reput.jobs.judging.shown import rows as segment_rows
from reput.jobs.outputs.report import counted, range_text
from reput.jobs.page.facts import Facts, section_of
from reput.jobs.page.model import (
    BARS_MOST,
    COLOURS,
    Bar,
    PageColumn,
    Section,
    Span,
    Table,
    bars,
    drawable,
    grid,
    labels,
    over_time,
    table,
    time_cell,
)
from reput.store_format.discover.store import discovered_lines, size_text
from reput.store_format.query.counts import SPANS_MOST, PutTimes

_OTHER = "other topics"
_SPAN_NAMES = {1000: "second", 60_000: "minute", 3_600_000: "hour", 86_400_000: "day"}
_KINDS = (
    ("sound", "var(--c0)"), ("damaged", "var(--bad)"), ("stale", "var(--c3)"),
    ("content", "var(--c1)"), ("missing", "var(--ink)"), ("unlisted", "var(--soft)"),
    ("unused", "var(--line)"),
)  # fmt: skip
_CAUSES_SAID = 5  # in sentences; where there are more, a table has all
# Plain words for the kinds of cells, and for the kinds of damaged ranges.
_CELL_NAMES = {
    "content": "wrong checksum", "unlisted": "after the last listed range",
    "unused": "not written",
}  # fmt: skip
_CAUSES = {
    "damaged": "no sound record", "missing": "the segment's file is gone or too short",
    "stale": "records from before the log was cut", "content": "only a checksum is wrong",
}  # fmt: skip


@section_of("time", "Messages over time", "put")
def put_section(section: Section, facts: Facts, put: PutTimes) -> None:
    messages = sum(row.messages for row in put.topics)
    if not messages:
        section.words.append("The log has no message.")
        return
    size = (facts.check or facts).log_end - facts.log_start
    section.words.append(
        f"{counted(messages, 'message')} of {counted(len(put.topics), 'topic')}, "
        f"{sum(row.bytes for row in put.topics):,} of the log's {size:,} bytes."
    )
    spans, parts = _grouped(put)
    drawn = drawn_spans(put)
    left_out = len(spans) - len(drawn)
    if left_out:
        section.notes.append(
            f"{left_out:,} of {len(spans):,} spans of time lie far from the others: they are in "
            f"the table, but not in the picture"
        )
    if len({span.begin for span in drawn}) > 1:
        about = f"Messages in each {_SPAN_NAMES.get(put.width) or duration(put.width)}, by topic"
        section.draw(about, over_time(drawn, "messages", parts))
    elif drawn:
        section.words.append(
            f"{'Most' if left_out else 'All'} were stored within {duration(put.width)} from "
            f"{time_cell(drawn[0].begin)} on."
        )
    section.show(
        "Messages in each span of time", spans, "from (UTC)=begin@", "topic=part",
        PageColumn("messages", lambda row: int(row.value), True),
    )  # fmt: skip


def drawn_spans(put: PutTimes) -> list[Span]:
    """The spans for the picture, without those of clocks that were wrong by years."""
    spans = [each for each in _grouped(put)[0] if drawable(each.begin) and drawable(each.end)]
    return _densest(spans, put.width)


def _grouped(put: PutTimes) -> tuple[list[Span], list[str]]:
    """(spans, labels): a label for each topic with the most messages, one for all others."""
    first = sorted(put.topics, key=lambda row: (-row.messages, row.topic or ""))
    names = [str(row.topic) for row in first]
    label_of = dict(zip(names[:COLOURS], labels(names[:COLOURS]), strict=True))
    parts = list(label_of.values()) + ([_OTHER] if len(names) > COLOURS else [])
    sums: dict[tuple[int, str], int] = defaultdict(int)
    for span in put.spans:
        sums[span.begin, label_of.get(span.topic, _OTHER)] += span.messages
    return [
        Span(begin, begin + put.width, many, part) for (begin, part), many in sorted(sums.items())
    ], parts


def _densest(spans: list[Span], width: int) -> list[Span]:
    """The spans in the stretch of time with the most messages.

    Without this, one record of a wrong clock would leave all others in one bar.
    """
    reach = width * SPANS_MOST * 2
    if not spans or spans[-1].end - spans[0].begin <= reach:
        return spans
    begins = [span.begin for span in spans]
    totals = [0.0]
    for span in spans:
        totals.append(totals[-1] + span.value)
    ends = [bisect_left(begins, begin + reach) for begin in begins]
    first = max(range(len(spans)), key=lambda n: totals[ends[n]] - totals[n])
    return spans[first : ends[first]]


@section_of("topics", "Topics")
def topics_section(section: Section, facts: Facts) -> None:
    """Topics by their bytes in the log, with all that is known of each."""
    put = {str(row.topic): row for row in facts.put.topics} if facts.put else {}
    there = {row.topic: row for row in facts.topics}

    def size_of(name: str) -> int:
        return put[name].bytes if name in put else 0

    names = sorted({*put, *there}, key=lambda name: (-size_of(name), name))
    if not names:
        section.words.append("There is no topic.")
        return
    shown = [name for name in names if name in put][:BARS_MOST]
    if shown:
        more = len(put) - len(shown)
        section.words.append(
            f"The {counted(len(shown), 'topic')} with the most bytes in the log"
            + (f"; {more:,} more are in the table only." if more else ".")
        )
        drawn = [Bar(label, put[n].bytes) for label, n in zip(labels(shown), shown, strict=True)]
        section.draw("Bytes in the log, by topic", bars(drawn, "bytes"))
    empty = len(names) - len(put)
    section.show(
        f"Topics, of which {empty:,} have no message in the log" if empty else "Topics",
        names,
        PageColumn("topic", lambda name: name),
        PageColumn("kind", lambda name: there[name].kind if name in there else None),
        PageColumn("queues", lambda name: there[name].queues if name in there else 0, True),
        PageColumn("put in the log", lambda name: put[name].messages if name in put else 0, True),
        PageColumn("bytes in the log", size_of, True),
        PageColumn("in queues", lambda name: there[name].messages if name in there else 0, True),
        PageColumn("oldest (UTC)", lambda n: time_cell(put[n].first) if n in put else None),
        PageColumn("newest (UTC)", lambda n: time_cell(put[n].last) if n in put else None),
    )


@section_of("sizes", "Sizes of messages")
def sizes_section(section: Section, facts: Facts) -> None:
    rows = facts.put.sizes if facts.put else []
    if not rows:
        section.words.append("There is none.")
        return
    mean = sum(row.bytes for row in rows) // sum(row.records for row in rows)
    section.words.append(
        f"A record of the log (a message and its head) has {mean:,} bytes on average."
    )
    shown = [Bar(_sizes(int(row.size or 0)), row.records) for row in rows]
    if len(shown) > 1:
        section.draw("Records by their size", bars(shown, "records"))
    else:
        section.words.append(f"All have {shown[0].label}.")
    section.show(
        "Sizes", rows, "bytes, from=size#", PageColumn("to below", lambda row: row.size * 2, True),
        "records#", "bytes in all=bytes#",
    )  # fmt: skip


def _sizes(size: int) -> str:
    """Text for the sizes from `size` to below its double."""
    return f"{size_text(size).removesuffix(' bytes')} to {size_text(2 * size)}"


@section_of("damage", "Damage", "check")
def damage_section(section: Section, facts: Facts, report: CheckReport) -> None:
    section.words.append(
        f"{counted(report.messages, 'message')} in {counted(len(report.segments), 'segment')}, at "
        f"offsets {report.log_start:,} to {report.log_end:,}, read by the rules of RocketMQ "
        f"{report.rocketmq}."
    )
    found = report.damage
    section.alarms += [f"{each.path}: {each.reason}" for each in report.findings[:20]]
    if found["range_count"]:
        lost = "nothing is known to be lost"
        if found["bytes_lost"] or found["messages_missing"]:
            lost = (
                f"{counted(found['bytes_lost'], 'byte')} lost, "
                f"{counted(found['messages_missing'], 'message')} known to be missing"
            )
        size = sum(cause["bytes"] for cause in found["causes"])
        ranges = f"{counted(found['range_count'], 'damaged range')} of {counted(size, 'byte')}"
        kept = size - found["bytes_lost"]
        more = (
            f" Of the other {counted(kept, 'byte')} only a checksum is wrong, or they lie after "
            f"the log's end."
            if 0 < kept < size
            else ""
        )
        section.alarms.append(f"{ranges}: {lost}.{more}")
        section.alarms += [
            f"{counted(each['ranges'], 'range')} of {counted(each['bytes'], 'byte')}, "
            f"{_CAUSES.get(each['kind'], each['kind'])}: {each['field']}: {each['reason']}."
            for each in found["causes"][:_CAUSES_SAID]
        ]
    elif not report.findings:
        section.words.append("Every record is whole: each checksum (CRC) in the log matches.")
    section.draw(_map_words(report), grid(_cells(report), _kinds(report)))
    if found["range_count"]:
        section.tables += _damage_tables(report)
    section.tables.append(_map_table(report))


def _cells(report: CheckReport) -> list[tuple[str, list[str]]]:
    """(first physical offset, names of its cells) of each segment that is drawn."""
    return [
        (f"{row.start:,}", [_CELL_NAMES.get(kind, kind) for kind in row.cells])
        for row in segment_rows(report)
        if row.cells
    ]


def _kinds(report: CheckReport) -> list[tuple[str, str]]:
    there = {kind for _, cells in _cells(report) for kind in cells}
    named = [(_CELL_NAMES.get(kind, kind), colour) for kind, colour in _KINDS]
    return [each for each in named if each[0] in there]


def _map_words(report: CheckReport) -> str:
    shown, there = len(_cells(report)), len(report.segments)
    cut = any(not row.cells for row in segment_rows(report))
    drawn = "the first with damage" if cut else "the ends and those with damage"
    which = "" if shown >= there else f" ({shown:,} of {there:,}: {drawn})"
    return f"The log: a row for each segment{which}, cut into 64 cells"


def _map_table(report: CheckReport) -> Table:
    """The map in numbers: for each segment the number of cells of each kind."""
    counts: list[PageColumn] = [
        PageColumn(kind, lambda row, kind=kind: row[1].count(kind), True)  # type: ignore[misc]
        for kind, _ in _kinds(report)
    ]
    return table("Cells of each segment", _cells(report), "first physical offset=0", *counts)


def _damage_tables(report: CheckReport) -> list[Table]:
    found = report.damage
    causes = table(
        "Causes", found["causes"], "kind", "field", "reason", "ranges#", "bytes#",
    )  # fmt: skip
    seen = [
        table("Damaged ranges", found["ranges"], "physical offset=physical_offset#",
              "bytes=length#", "kind", PageColumn("in words", range_text),
              all_rows=found["range_count"]),
        table("Messages missing from queues", found["missing"], "topic", "queue=queue_id#",
              "first queueOffset=first#", "messages=count#",
              all_rows=len(found["missing"]) + found["missing_unlisted"]),
    ]  # fmt: skip
    for each in seen:
        each.open = True
    return seen + ([causes] if len(found["causes"]) > _CAUSES_SAID else [])


@section_of("derived", "Derived files", "check")
def derived_section(section: Section, facts: Facts, report: CheckReport) -> None:
    """Derived files by their state: all match the log, behind, expired or different."""
    section.notes += [*report.notes, *report.warnings]
    if report.derived_files is None:
        section.words.append("There are none; reput rebuild makes them from the log.")
        return
    wrong, behind = len(report.differences), len(report.behind)
    as_given = max(report.derived_files - wrong - behind, 0)
    states = {
        "match the log": as_given,
        "behind: a broker goes on with them": behind,
        "expired: cleaning removes them": len(report.expired),
        "different": wrong,
    }
    if report.looks_like:
        section.alarms.append(
            f"This looks like RocketMQ {report.looks_like}, not {report.rocketmq}: as "
            f"{report.looks_like} it is sound (--rocketmq {report.looks_like})."
        )
    elif wrong:
        section.alarms.append(
            f"{counted(wrong, 'difference')} from what the log gives."
            if report.in_rocksdb
            else f"{wrong:,} of {report.derived_files:,} files of queues and index do not match "
            f"the log."
        )
    else:
        files = f"{counted(report.derived_files, 'file')} of queues and index"
        compared = compared_text(report.derived_files, files, report.in_rocksdb)
        section.words.append(f"{compared}: all match the log.")
    shown = [Bar(name, many) for name, many in states.items() if many]
    rows = [("different", each) for each in report.differences]
    rows += [("behind", each) for each in report.behind]
    if len(shown) > 1:
        section.draw("Derived files, by state", bars(shown, "files"))
        section.show("Derived files by state", shown, "state=0", "files=1#")
    if rows:
        section.show(
            "Files that differ or are behind", rows, "state=0",
            PageColumn("what", lambda row: row[1].text()),
        )  # fmt: skip
        section.tables[-1].open = bool(wrong)
    if report.discovered:
        section.show(
            "What the store's files say of its settings",
            [line.partition(": ") for line in discovered_lines(report.discovered)],
            "setting=0", "known by=2",
        )  # fmt: skip
