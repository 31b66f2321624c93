"""The report of a check for people: text, a picture of the log, and what to do next."""

import re
from collections.abc import Iterator
from html import escape
from typing import Any, NamedTuple

from reput.jobs.judging.report import LEFT, TAIL_LOST, CheckReport, compared_text
from reput.jobs.outputs.report import (
    cause_line,
    counted,
    damage_line,
    era_lines,
    found_lines,
    range_text,
    short_range,
)
from reput.jobs.salvaging.damage_map import KEPT_FROM
from reput.store_format.log.walk import ASSUMED
from reput.store_format.names import segment_name
from reput.store_format.query.compacted import BY_RECOVER

_PUT_IN_PLACE = "put what is in DIR in the place of its files"  # install is for local stores
CELLS, ROWS_MOST = 64, 40  # of each segment in the picture; segments
_WHOLE = re.compile(r"--set mappedFileSizeCommitLog=\d+")  # a warning: if the segment is whole
_SHOWN, _SHORT = 20, 2  # lines of a kind, with -v and without
# kind of damaged range -> (sign, colour) of its cells, the worst kind first
SIGNS = {
    "missing": ("-", "#7f7f7f"),
    "damaged": ("!", "#c0392b"),
    "stale": ("s", "#8e44ad"),
    "content": ("c", "#e67e22"),
    "unlisted": ("?", "#b7950b"),  # behind the last range that the report lists
}
_SOUND, _UNUSED = ("#", "#3b6ea5"), (".", "#e5e5e5")
_CELL = {"sound": _SOUND, "unused": _UNUSED, **SIGNS}
_LEGEND = (
    "# sound  ! damaged  - missing  s stale  c fails a CRC only  ? not listed (--ranges)  "
    ". not written"
)


class MapRow(NamedTuple):
    """A segment's row in the picture; without cells it counts the segments after the last row."""

    start: int  # physical offset
    cells: list[str]  # each a key of SIGNS, "sound" or "unused"
    skipped: int = 0  # segments left out before this one

    @property
    def left_out(self) -> str:
        """The line about the segments left out; empty if there are none."""
        what = "segments without damage" if self.cells else "more segments"
        return f"... {self.skipped:,} {what}" if self.skipped else ""


def text(report: CheckReport, whole: bool = False, given: str = "") -> str:
    """The report as text. whole: as for -v, up to 20 lines of a kind; given: as for `next_step`."""
    verdict = report.state
    if report.looks_like:
        verdict = (
            f"this looks like {report.looks_like}, not {report.rocketmq}: as RocketMQ "
            f"{report.looks_like} it is sound (--rocketmq {report.looks_like})"
        )
    most = _SHOWN if whole else _SHORT
    log = f"  log       {report.log_start:,} to {report.log_end:,}"
    lines = [
        f"checked {report.store} (RocketMQ {report.releases or report.rocketmq}): {verdict}",
        *era_lines(report.discovered),
        f"{log}, {counted(report.messages, 'message')}",
        *([f"  abort     {left_open_text(report)}"] if report.crashed else []),
        *_first(
            [f"  file      {each.path}: {each.reason}" for each in report.findings],
            most, len(report.findings),
        ),
    ]  # fmt: skip
    ranges = report.damage["ranges"]
    if damage_line(report.damage) != "none":
        lines.append(f"  damage    {damage_line(report.damage)}")
        if whole:
            lines += [f"  cause     {cause_line(each)}" for each in report.damage["causes"]]
        shown = [
            f"  range     {range_text(each) if whole else short_range(each)}"
            for each in ranges[:most]
        ]
        lines += _first(shown, most, report.damage["range_count"])
        if kept := [each for each in ranges if each["kind"] == "content"]:
            lines.append(
                f"  message   reput query {report.store} --offset {kept[0]['physical_offset']}"
                "   (shows what is left of it)"
            )
    gaps = report.damage["missing"]
    lines += _first(
        [f"  missing   {_gap_text(gap)}" for gap in gaps[:most]],
        most, len(gaps) + report.damage["missing_unlisted"],
    )  # fmt: skip
    if report.derived_files is None:
        lines.append("  derived   none: the store has no queues and no index")
    else:
        count = len(report.differences)
        same = "all match the log" if not count else counted(count, "difference")
        if report.crashed and report.behind:
            same += f"; {counted(len(report.behind), 'file')} that the recovery makes or completes"
        files = counted(report.derived_files, "file")
        compared = compared_text(report.derived_files, files, report.in_rocksdb)
        lines.append(f"  derived   {compared}: {same}")
        lines += _first(
            [f"  differs   {each.text()}" for each in report.differences[:most]], most, count
        )
    lines += [f"  time      {report.fall_of_time}"] if report.fall_of_time else []
    lines += [f"  warning   {warning}" for warning in report.warnings]
    following = next_step(report, given)
    return "\n".join([*lines, *([f"  next      {following}"] if following else [])])


def details(report: CheckReport) -> list[str]:
    """The lines that -v shows below the text."""
    return [
        *found_lines(report.discovered),
        *(f"  past end  {_gap_text(each)}" for each in report.damage.get("past_end", [])[:_SHOWN]),
        *(f"  note      {note}" for note in report.notes),
        "",
        *picture(report),
        f"  {_LEGEND}",
    ]


def left_open_text(report: CheckReport) -> str:
    """What the file `abort` says of a store."""
    if report.lock_unknown:
        return "is there: the broker was killed, or it runs (there is no lock here to ask)"
    return "is there and nobody holds the lock: the broker was killed"


def next_step(report: CheckReport, given: str = "") -> str:
    """The command that mends the findings, with the options on the store's broker that were
    `given`; empty if no command does, or nothing is to be done.
    """
    if report.looks_like or (report.sound and report.derived_files is not None):
        return ""
    # a command that writes needs the release
    release = " --rocketmq VERSION" if report.assumed and "--rocketmq" not in given else ""
    size = next(filter(None, map(_WHOLE.search, report.warnings)), None)
    whole = f" {size[0]}" if size and size[0].split("=")[0] not in given else ""
    recover = f"reput recover {report.store} --dry-run{given}{release}{whole}"
    if todo := next((each.todo for each in report.findings if each.todo), ""):
        return todo
    if report.of_group and report.findings and not report.damage["range_count"]:
        return "take another member of the group, which has the entries that are missing here"
    if any(each.reason.endswith(BY_RECOVER) for each in report.findings):
        return recover
    if lost := [each.reason for each in report.findings if TAIL_LOST in each.reason]:
        look = "look for what is missing, on a slave or in a backup"
        if report.in_rocksdb:
            return f"{look}, or let the broker cut all back (without enableAcceleratedRecovery)"
        if not report.crashed and all(each.endswith(LEFT) for each in lost):
            return f"{look}; else start the broker"
        return f"{look}; else {recover}   (all is cut back to the log)"
    if report.crashed and not report.findings and (report.undamaged or report.ends_torn):
        stopped = "once no broker runs, " if report.lock_unknown else ""
        if report.of_group or report.in_rocksdb:
            return f"{stopped}start the broker: it recovers"
        return f"{stopped}{recover}   (or start the broker)"
    made = f"--output DIR{given}{release}"
    if report.of_group:
        return f"reput rebuild {report.store} {made} --on-damage salvage"
    odd = any("mappedFileSizeCommitLog is" in each.reason for each in report.findings)
    more = "".join(
        f" {option}" for option, said in (("--put-back", KEPT_FROM), ("--assume-names", ASSUMED))
        if any(said in each.reason for each in report.findings)
    )  # fmt: skip
    if report.damage["range_count"] or odd or more:
        return f"reput repair {report.store} {made}{more}   (a copy that a broker serves)"
    of_log = report.only_derived_differ or report.index_of_older_log or report.of_timers
    if of_log or report.derived_files is None:
        if report.store.startswith("backup:"):
            return f"reput restore {report.store} --output DIR"
        then = _PUT_IN_PLACE if "://" in report.store else f"reput install DIR {report.store}"
        which = "--queues files " * report.two_kinds  # a broker makes the rows from these
        return f"reput rebuild {report.store} {which}{made}, then {then}"
    return ""


def _gap_text(gap: dict[str, Any]) -> str:
    last = gap["first"] + gap["count"] - 1
    which = f"{gap['first']} to {last}" if gap["count"] > 1 else f"{last}"
    return f"topic {gap['topic']!r}, queue {gap['queue_id']}: queueOffset {which}"


def _first(lines: list[str], most: int, count: int) -> list[str]:
    """The first `most` of `count` lines of a kind, and a line with the number of the others."""
    if count <= most:
        return lines
    where = "-v shows more, " if most == _SHORT else ""
    return [*lines[:most], f"  ... and {count - most:,} more ({where}--json has them)"]


def picture(report: CheckReport) -> Iterator[str]:
    """A line for each segment, with a sign for each 64th; stretches without damage are left out."""
    for row in rows(report):
        if row.left_out:
            yield f"  {row.left_out}"
        if row.cells:
            yield f"  {segment_name(row.start)} [{''.join(_CELL[kind][0] for kind in row.cells)}]"


def rows(report: CheckReport) -> Iterator[MapRow]:
    """The segments worth showing: the first, the last, those with damage, missing ones."""
    size = report.segment_bytes
    spans = _spans(report)
    starts = set(report.segments)
    wanted = {report.segments[0], report.segments[-1]}
    for start, end, _ in spans:
        first = start // size * size
        wanted |= set(range(first, min(end, first + ROWS_MOST * size), size))
    shown = sorted(wanted)[:ROWS_MOST]
    before = shown[0] - size
    for start in shown:
        skipped = sum(before < each < start for each in starts)
        yield MapRow(start, _cells(start, size, spans, report), skipped)
        before = start
    if left := sum(each > before for each in starts):
        yield MapRow(0, [], left)


def _spans(report: CheckReport) -> list[tuple[int, int, str]]:
    """(start, end, kind) of each listed range, and of what lies behind them if others follow."""
    ranges = report.damage["ranges"]
    spans = [
        (each["physical_offset"], each["physical_offset"] + each["length"], each["kind"])
        for each in ranges
    ]
    if len(ranges) < report.damage["range_count"]:
        spans.append((spans[-1][1], report.segments[-1] + report.segment_bytes, "unlisted"))
    return spans


def _cells(
    start: int, size: int, spans: list[tuple[int, int, str]], report: CheckReport
) -> list[str]:
    cells = []
    mine = [span for span in spans if span[0] < start + size and span[1] > start]
    for i in range(CELLS):
        low, high = start + i * size // CELLS, start + (i + 1) * size // CELLS
        kinds = {kind for a, b, kind in mine if a < high and b > low}
        worst = next((kind for kind in SIGNS if kind in kinds), None)
        cells.append(worst or ("sound" if low < report.log_end else "unused"))
    return cells


def svg(report: CheckReport) -> str:
    """The picture as an SVG image: a bar for each segment, each range at its place."""
    size, left, width, height = report.segment_bytes, 190, 640, 18
    spans = _spans(report)
    parts, y = list[str](), 30
    for row in rows(report):
        if row.left_out:
            parts.append(f'<text x="{left}" y="{y + 12}">{row.left_out}</text>')
            y += height + 4
        if not row.cells:
            continue
        end = row.start + size
        used = min(max(report.log_end - row.start, 0), size) * width // size
        parts.append(
            f'<text x="8" y="{y + 13}">{segment_name(row.start)}</text>'
            f'<rect x="{left}" y="{y}" width="{width}" height="{height}" fill="{_UNUSED[1]}"/>'
            f'<rect x="{left}" y="{y}" width="{used}" height="{height}" fill="{_SOUND[1]}"/>'
        )
        for a, b, kind in spans:
            if a < end and b > row.start:
                x = left + (max(a, row.start) - row.start) * width // size
                wide = max((min(b, end) - max(a, row.start)) * width // size, 2)
                colour = SIGNS[kind][1]
                parts.append(
                    f'<rect x="{x}" y="{y}" width="{wide}" height="{height}" fill="{colour}">'
                    f"<title>{kind}: {a} to {b}</title></rect>"
                )
        y += height + 4
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{left + width + 10}" height="{y + 10}" '
        f'font-family="monospace" font-size="12"><text x="8" y="18">{escape(report.store)}: '
        f"{escape(_LEGEND)}</text>{''.join(parts)}</svg>"
    )
