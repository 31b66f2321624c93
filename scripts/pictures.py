"""Writes docs/pictures/overview.svg and speed.svg: `python -m scripts.pictures`.

The first is the flowchart below; the second the seconds of docs/performance.md as bars. Both have
colours of their own, as README shows them too.
"""

import re
from pathlib import Path

from scripts.flowchart import svg

DOCS = Path(__file__).resolve().parent.parent / "docs"
_OVERVIEW = """\
flowchart TB
  log[commitlog/<br>each message once] --> files & report & messages & copy
  files[rebuild:<br>queues and index,<br>as RocketMQ writes]
  files --> store[install:<br>the broker's store,<br>in one step]
  report[check, report:<br>what is damaged,<br>what was lost]
  messages[query, export, serve:<br>messages,<br>without a broker]
  copy[repair:<br>a copy that<br>a broker serves]
"""
_STYLE = """<style>text{font:13px system-ui,sans-serif;text-anchor:middle;fill:#1b2126}
text.arrow{font-size:12px;fill:#0b5cad;paint-order:stroke;stroke:#fff;stroke-width:4px}
rect.node{fill:#eef4fb;stroke:#1f5fa8}path.arrow{fill:none;stroke:#4f5b66;stroke-width:1.3}
marker path{fill:#4f5b66}.paper{fill:#fff}</style>"""
# Of two runs in a cell, the first.
_ROW = re.compile(
    r"^\| (15 GB|usual, 1\.87 GB) \| ([\d.]+)(?:, [\d.]+)? \| \*\*([\d.]+)(?:, [\d.]+)?\*\* \|",
    re.M,
)
_NAMES = {
    "usual, 1.87 GB": "4,000,000 messages, 1.9 GB", "15 GB": "32,000,000 messages, 15 GB"
}  # fmt: skip


def speed(performance: str) -> str:
    """Bars of the rebuild's seconds, RocketMQ's and ours, from the table of performance.md."""
    rows = _ROW.findall(performance)
    most = max(float(row[1]) for row in rows)
    parts, y = [], 52
    for name, theirs, ours in rows:
        parts.append(f'<text x="20" y="{y}" class="name">{_NAMES[name]}</text>')
        for who, seconds, colour in (("RocketMQ", theirs, "#9aa5b1"), ("reput", ours, "#1f5fa8")):
            y += 26
            wide = float(seconds) / most * 480
            parts.append(
                f'<text x="110" y="{y}" class="who">{who}</text><rect x="120" y="{y - 14}" '
                f'width="{wide:.0f}" height="18" rx="2" fill="{colour}"/>'
                f'<text x="{128 + wide:.0f}" y="{y}">{seconds} s</text>'
            )
        y += 40
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" aria-label="Seconds of a rebuild" '
        f'viewBox="0 0 700 {y - 20}"><style>text{{font:14px system-ui,sans-serif;fill:#1b2126}}'
        f".who{{text-anchor:end}}.name{{font-weight:600}}</style>"
        f'<rect width="700" height="{y - 20}" fill="#fff"/><text x="20" y="24">Seconds of a '
        f"rebuild with all checksums, start included (two cores)</text>{''.join(parts)}</svg>\n"
    )


def overview() -> str:
    """The flowchart of README and the site's first page."""
    drawn = svg(_OVERVIEW)
    head, _, rest = drawn.partition("<defs>")
    return f'{head}{_STYLE}<rect class="paper" width="100%" height="100%"/><defs>{rest}\n'


if __name__ == "__main__":
    text = (DOCS / "performance.md").read_text("utf-8")
    (DOCS / "pictures/speed.svg").write_text(speed(text), "utf-8")
    (DOCS / "pictures/overview.svg").write_text(overview(), "utf-8")
