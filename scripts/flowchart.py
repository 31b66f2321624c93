"""Draws the flowcharts of docs/ as SVG while the site is built, so that no reader loads Mermaid.

Understands what these pages use of Mermaid: nodes, subgraphs, solid and dotted arrows with texts.
Drawn from the top down, a node below all that lead to it; an arrow that runs back is drawn beside.
"""

import re
from html import escape
from textwrap import wrap
from typing import Any, NamedTuple

_ARROW = re.compile(
    r"\s*(?:--\s+\"?(?P<text>[^\"]+?)\"?\s+-->|-\.\s+\"?(?P<dotted>[^\"]+?)\"?\s+\.->"
    r"|(?P<plain>-->)|(?P<dots>-\.->))\s*"
)
_NODE = re.compile(r"(\w+)\s*(?:\[\(?\"?(.*?)\"?\)?\]|\{(.*?)\})?$")
_LETTER, _LINE, _GAP, _RANK_GAP, _WRAP, _PAD = 7.0, 17, 26, 54, 22, 12


class Edge(NamedTuple):
    """An arrow between two nodes, by their ids."""

    start: str
    end: str
    text: str = ""
    dotted: bool = False


class Chart:
    """A flowchart's nodes with their texts, its arrows, and the groups that nodes stand in."""

    def __init__(self, source: str) -> None:
        self.nodes: dict[str, list[str]] = {}
        self.edges: list[Edge] = []
        self.groups: list[tuple[str, list[str]]] = []
        self.upwards = False
        group: list[str] | None = None
        for line in map(str.strip, source.splitlines()):
            if line.startswith("flowchart"):
                self.upwards = line.endswith("BT")
            elif line.startswith("subgraph"):
                group = []
                self.groups.append((line[line.index("[") + 1 : -1], group))
            elif line == "end":
                group = None
            elif line:
                self._statement(line, group)

    def _statement(self, line: str, group: list[str] | None) -> None:
        ends, at, arrow = None, 0, None
        for found in [*_ARROW.finditer(line), None]:
            part = line[at : found.start() if found else None]
            here = [self._node(each.strip(), group) for each in part.split(" & ")]
            if arrow:
                text = arrow["text"] or arrow["dotted"] or ""
                dotted = bool(arrow["dotted"] or arrow["dots"])
                self.edges += [Edge(a, b, text, dotted) for a in ends or () for b in here]
            if found:
                ends, at, arrow = here, found.end(), found

    def _node(self, text: str, group: list[str] | None) -> str:
        found = _NODE.match(text)
        if not found:
            raise ValueError(f"no node of a flowchart: {text!r}")
        name, label = found[1], found[2] or found[3]
        if label or name not in self.nodes:
            parts = (label or name).replace("<br>", "\n").splitlines()
            self.nodes[name] = [
                line for part in parts for line in wrap(part, _WRAP, break_long_words=False)
            ]
        if group is not None:
            group.append(name)
        return name

    def ranks(self) -> dict[str, int]:
        """How far down each node stands; an arrow back to a node above does not count."""
        ranks: dict[str, int] = {}
        forward = self.forward()

        def rank(name: str) -> int:
            if name not in ranks:
                ranks[name] = max((rank(e.start) + 1 for e in forward if e.end == name), default=0)
            return ranks[name]

        for name in self.nodes:
            rank(name)
        return ranks

    def forward(self) -> list[Edge]:
        """The arrows without those that close a circle."""
        kept: list[Edge] = []
        for edge in self.edges:
            reached, todo = set(), [edge.end]
            while todo:
                name = todo.pop()
                if name not in reached:
                    reached.add(name)
                    todo += [e.end for e in kept if e.start == name]
            if edge.start not in reached:
                kept.append(edge)
        return kept


def svg(source: str) -> str:
    """A flowchart as SVG, in the page's colours."""
    chart = Chart(source)
    ranks, forward = chart.ranks(), chart.forward()
    rows: list[list[str]] = [[] for _ in range(max(ranks.values()) + 1)]
    for name in chart.nodes:
        rows[ranks[name]].append(name)
    _order(rows, forward)
    if chart.upwards:
        rows.reverse()
    sizes = {
        name: (max(map(len, lines)) * _LETTER + 2 * _PAD, len(lines) * _LINE + _PAD)
        for name, lines in chart.nodes.items()
    }
    widths = [sum(sizes[n][0] for n in row) + _GAP * (len(row) - 1) for row in rows]
    width = (
        max(widths)
        + 80
        + 2
        * _LETTER
        * max((len(edge.text) for edge in chart.edges if edge not in forward), default=0)
    )
    places, y = {}, 34.0
    for row, wide in zip(rows, widths, strict=True):
        x, high = (width - wide) / 2, max(sizes[name][1] for name in row)
        for name in row:
            places[name] = (x, y + (high - sizes[name][1]) / 2, *sizes[name])
            x += sizes[name][0] + _GAP
        y += high + _RANK_GAP
    back = {edge._replace(text="") for edge in chart.edges if edge not in forward}
    parts = [_box(title, [places[name] for name in names]) for title, names in chart.groups]
    said: set[tuple[str, str]] = set()  # arrows back with one text and one end say it once
    for edge in reversed(chart.edges):
        if edge not in forward and (edge.text, edge.end) in said:
            edge = edge._replace(text="")
        said.add((edge.text, edge.end))
        parts.append(_arrow(edge, places, edge._replace(text="") not in back))
    parts += [_node(places[name], lines) for name, lines in chart.nodes.items()]
    return (
        f'<svg class="flowchart" xmlns="http://www.w3.org/2000/svg" role="img" viewBox="0 0 '
        f'{width:.0f} {y - _RANK_GAP + 24:.0f}" style="max-width: {width:.0f}px"><defs><marker '
        f'id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" '
        f'orient="auto"><path d="M0 0L8 4L0 8z"/></marker></defs>{"".join(parts)}</svg>'
    )


def _order(rows: list[list[str]], edges: list[Edge]) -> None:
    """Each row by the middle of the neighbours above, then of those below, some times."""
    for sweep in range(8):
        for here, beside in zip(rows[1:], rows, strict=False) if sweep % 2 == 0 else zip(
            rows[-2::-1], rows[:0:-1], strict=False
        ):  # fmt: skip
            at = {name: n / max(len(beside) - 1, 1) for n, name in enumerate(beside)}

            def middle(name: str, at: dict[str, float] = at, here: list[str] = here) -> float:
                near = [at[e.start] for e in edges if e.end == name and e.start in at]
                near += [at[e.end] for e in edges if e.start == name and e.end in at]
                own = here.index(name) / max(len(here) - 1, 1)
                return sum(near) / len(near) if near else own

            here[:] = sorted(here, key={name: middle(name) for name in here}.__getitem__)


def _box(title: str, places: list[tuple[float, ...]]) -> str:
    left, top = min(p[0] for p in places) - 10, min(p[1] for p in places) - 22
    right, low = max(p[0] + p[2] for p in places) + 10, max(p[1] + p[3] for p in places) + 8
    right = max(right, left + len(title) * _LETTER)
    return (
        f'<rect class="group" x="{left:.0f}" y="{top:.0f}" width="{right - left:.0f}" '
        f'height="{low - top:.0f}" rx="5"/><text class="group" x="{left + 6:.0f}" '
        f'y="{top + 14:.0f}">{escape(title)}</text>'
    )


def _node(place: tuple[float, ...], lines: list[str]) -> str:
    x, y, wide, high = place
    x_text, y_text = x + wide / 2, y + _PAD / 2 + 13
    texts = "".join(
        f'<text x="{x_text:.0f}" y="{y_text + n * _LINE:.0f}">{escape(line)}</text>'
        for n, line in enumerate(lines)
    )
    return (
        f'<rect class="node" x="{x:.0f}" y="{y:.0f}" width="{wide:.0f}" height="{high:.0f}" '
        f'rx="5"/>{texts}'
    )


def _arrow(edge: Edge, places: dict[str, tuple[float, ...]], forward: bool) -> str:
    x, y, wide, high = places[edge.start]
    to_x, to_y, to_wide, to_high = places[edge.end]
    if forward:
        down = to_y > y
        a, b = (x + wide / 2, y + high if down else y), (to_x + to_wide / 2, to_y if down
                                                         else to_y + to_high)  # fmt: skip
        bend = (b[1] - a[1]) / 2
        way = f"C{a[0]:.0f} {a[1] + bend:.0f} {b[0]:.0f} {b[1] - bend:.0f} {b[0]:.0f} {b[1]:.0f}"
        text_at = ((a[0] + b[0]) / 2, (a[1] + b[1]) / 2 + 4)
    else:
        a, b = (x + wide, y + high / 2), (to_x + to_wide, to_y + to_high / 2)
        out = max(a[0], b[0]) + 60
        way = f"C{out:.0f} {a[1]:.0f} {out:.0f} {b[1]:.0f} {b[0]:.0f} {b[1]:.0f}"
        text_at = (a[0] + (out - a[0]) * 0.8, (a[1] + b[1]) / 2 + 4)
    dotted = ' stroke-dasharray="4 4"' if edge.dotted else ""
    kind = "arrow" if forward else "arrow back"
    text = (
        f'<text class="{kind}" x="{text_at[0]:.0f}" y="{text_at[1]:.0f}">{escape(edge.text)}</text>'
        if edge.text
        else ""
    )
    return (
        f'<path class="arrow" d="M{a[0]:.0f} {a[1]:.0f}{way}"{dotted} marker-end="url(#head)"/>'
        f"{text}"
    )


def fence(source: str, *_: Any, **__: Any) -> str:
    """A fence of Markdown, as pymdownx.superfences asks for it."""
    return f'<div class="flowchart">{svg(source)}</div>'
