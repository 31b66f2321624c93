"""Pictures of a job's result, as SVG text for notebooks and reports."""

from html import escape

from reput.jobs.console.voice import safe
from reput.jobs.outputs.report import Summary
from reput.store_format.names import BATCH_CONSUME_QUEUE, CONSUME_QUEUE

_ROW, _LEFT, _BAR, _TOP = 20, 380, 400, 50


def queue_chart(summary: Summary) -> str:
    """A bar for each queue; its length is the number of the queue's entries."""
    entries: dict[str, int] = {}
    for file in summary.files:
        folder, _, queue_path = file.path.partition("/")
        if folder in (CONSUME_QUEUE, BATCH_CONSUME_QUEUE):
            queue = queue_path.rsplit("/", 1)[0]
            entries[queue] = entries.get(queue, 0) + file.entries
    most = max(entries.values(), default=1)
    rows = [
        f'<text x="{_LEFT - 10}" y="{y}" text-anchor="end">{escape(safe(queue))}</text>'
        f'<rect x="{_LEFT}" y="{y - 11}" width="{max(1, _BAR * count // most)}" height="13" '
        f'fill="#3b6ea5"/>'
        f'<text x="{_LEFT + 10 + _BAR * count // most}" y="{y}">{count:,}</text>'
        for y, (queue, count) in _placed(sorted(entries.items()))
    ]
    height = _TOP + _ROW * len(rows)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_LEFT + _BAR + 90}" height="{height}" '
        f'font-family="sans-serif" font-size="12">'
        f'<text x="{_LEFT}" y="24" font-size="15">Entries a queue</text>{"".join(rows)}</svg>'
    )


def _placed(
    items: list[tuple[str, int]],
) -> list[tuple[int, tuple[str, int]]]:
    """(y of its row in pixels, item) for each item."""
    return [(_TOP + _ROW * i, item) for i, item in enumerate(items)]
