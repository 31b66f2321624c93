"""A check's report for people: text, a picture of the log in it, and the same picture as SVG."""

from collections.abc import Iterator
from html import escape
from typing import Any, NamedTuple

from reput.jobs.judging.check_report import CheckReport
from reput.jobs.outputs.summary import cause_line, damage_line
from reput.jobs.salvaging.damage_map import range_text
from reput.store_format.discover.store import discovered_lines
from reput.store_format.names import segment_name

CELLS = 64  # a segment
ROWS_MOST = 40
_SHOWN = 20
# what a cell shows, the worst first: kind of range -> sign, colour
SIGNS = {
    "missing": ("-", "#7f7f7f"),
    "damaged": ("!", "#c0392b"),
    "stale": ("s", "#8e44ad"),
    "content": ("c", "#e67e22"),
}
_SOUND, _UNUSED = ("#", "#3b6ea5"), (".", "#e5e5e5")
_LEGEND = "# sound  ! damaged  - missing  s stale  c fails a CRC only  . not written"


class Row(NamedTuple):
    """One segment of the picture: its first offset, and a kind for each cell; or a gap."""

    start: int
    cells: list[str]  # a kind, "sound" or "unused"
    skipped: int = 0  # sound segments left out before this one


def text(report: CheckReport) -> str:
    """What a person reads."""
    verdict = "sound" if report.sound else "NOT sound"
    if report.looks_like:
        verdict = (
            f"this looks like {report.looks_like}, not {report.rocketmq}: as RocketMQ "
            f"{report.looks_like} it is sound (--rocketmq {report.looks_like})"
        )
    lines = [
        f"checked {report.store} (RocketMQ {report.rocketmq}): {verdict}",
        f"  log       {report.log_start:,} to {report.log_end:,}, {report.messages:,} messages",
        *(f"  file      {each.path}: {each.reason}" for each in report.findings[:_SHOWN]),
        *_more(len(report.findings)),
    ]
    ranges = report.damage["ranges"]
    if ranges:
        lines.append(f"  damage    {damage_line(report.damage)}")
        lines += [f"  cause     {cause_line(each)}" for each in report.damage["causes"]]
        lines += [f"  range     {range_text(told)}" for told in ranges[:_SHOWN]]
        lines += _more(report.damage["range_count"])
    for gap in report.damage["missing"][:_SHOWN]:
        last = gap["first"] + gap["count"] - 1
        lines.append(
            f"  missing   topic {gap['topic']!r}, queue {gap['queue_id']}: "
            f"queueOffset {gap['first']} to {last}"
        )
    lines += _more(len(report.damage["missing"]) + report.damage["missing_unlisted"])
    if report.derived_files is not None:
        count = len(report.differences)
        same = "as the log gives them" if not count else f"{count:,} differences"
        lines.append(f"  derived   {report.derived_files:,} files: {same}")
        lines += [f"  differs   {each.text()}" for each in report.differences[:_SHOWN]]
        lines += _more(count)
    lines += [f"  found     {line}" for line in discovered_lines(report.discovered)]
    lines += [f"  note      {note}" for note in report.notes]
    lines += [f"  warning   {warning}" for warning in report.warnings]
    lines += ["", *picture(report), f"  {_LEGEND}"]
    return "\n".join(lines)


def _more(count: int) -> list[str]:
    return (
        [f"  ... and {count - _SHOWN:,} more (--json has more, --ranges FILE all)"]
        if count > _SHOWN
        else []
    )


def picture(report: CheckReport) -> Iterator[str]:
    """A line a segment, each sign a 64th of it; long stretches without damage are left out."""
    for row in rows(report):
        if row.skipped:
            yield f"  ... {row.skipped:,} segments without damage"
        if row.cells:
            yield f"  {segment_name(row.start)} [{''.join(_sign(kind)[0] for kind in row.cells)}]"


def _sign(kind: str) -> tuple[str, str]:
    return {"sound": _SOUND, "unused": _UNUSED, **SIGNS}[kind]


def rows(report: CheckReport) -> Iterator[Row]:
    """The segments worth showing: the first, the last, those with damage, missing ones."""
    size = report.segment_bytes
    spans = [_span(told) for told in report.damage["ranges"]]
    starts = set(report.segments)
    wanted = {report.segments[0], report.segments[-1]}
    for start, end, _ in spans:
        first = start // size * size
        wanted |= set(range(first, min(end, first + ROWS_MOST * size), size))
    shown = sorted(wanted)[:ROWS_MOST]
    before = shown[0] - size
    for start in shown:
        skipped = sum(before < each < start for each in starts)
        yield Row(start, _cells(start, size, spans, report), skipped)
        before = start
    left = sum(each > before for each in starts)
    if left:
        yield Row(0, [], left)


def _span(told: dict[str, Any]) -> tuple[int, int, str]:
    start = told["physical_offset"]
    return start, start + told["length"], told["kind"]


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
    """The picture as an SVG image: a bar a segment, each range at its place."""
    size, left, width, height = report.segment_bytes, 190, 640, 18
    spans = [_span(told) for told in report.damage["ranges"]]
    parts = []
    y = 30
    for row in rows(report):
        if row.skipped:
            note = f"... {row.skipped:,} segments without damage"
            parts.append(f'<text x="{left}" y="{y + 12}">{note}</text>')
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
