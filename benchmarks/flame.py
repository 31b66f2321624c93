"""A flame graph from collapsed stacks: `python -m benchmarks.flame FILE.raw > flame.svg`.

FILE.raw comes from py-spy, which is not among the dependencies (pip install py-spy):
`py-spy record --subprocesses -f raw -o FILE.raw -- .venv/bin/python -m reput rebuild ...`.
"""

import argparse
import zlib
from dataclasses import dataclass, field
from html import escape
from pathlib import Path

WIDTH, LINE, LEAST = 1200, 17, 0.6  # pixels; what is narrower than LEAST is left out


@dataclass
class Frame:
    samples: int = 0
    below: dict[str, "Frame"] = field(default_factory=dict)


def read(text: str, root: str) -> Frame:
    """The frames from the first one on whose name contains `root`."""
    top = Frame()
    for line in text.splitlines():
        stack, _, count = line.rpartition(" ")
        names = stack.split(";")
        start = next((i for i, name in enumerate(names) if root in name), None)
        if start is None:
            continue
        frame = top
        frame.samples += int(count)
        for name in names[start:]:
            frame = frame.below.setdefault(name, Frame())
            frame.samples += int(count)
    return top


def depth(frame: Frame) -> int:
    return 1 + max(map(depth, frame.below.values()), default=0)


def boxes(frame: Frame, x: float, level: int, scale: float, total: int) -> list[str]:
    """SVG of what is below a frame, left to right by name."""
    drawn = []
    for name, child in sorted(frame.below.items()):
        width = child.samples * scale
        if width >= LEAST:
            hue = zlib.crc32(name.split("(")[0].encode()) % 50
            shown = escape(name[: int(width / 6.2)]) if width > 25 else ""
            title = f"{escape(name)}: {100 * child.samples / total:.1f}%"
            drawn.append(
                f'<g><title>{title}</title><rect x="{x:.1f}" y="{level * LINE}" '
                f'width="{width:.1f}" height="{LINE - 1}" fill="hsl({hue},80%,65%)"/>'
                f'<text x="{x + 2:.1f}" y="{level * LINE + 12}">{shown}</text></g>'
            )
            drawn += boxes(child, x, level + 1, scale, total)
        x += width
    return drawn


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("stacks", type=Path)
    parser.add_argument("--root", default="_scan (udfs", help="draw from this function on")
    arguments = parser.parse_args()
    top = read(arguments.stacks.read_text(), arguments.root)
    height = depth(top) * LINE
    print(f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" '
          'font-family="monospace" font-size="10">')  # fmt: skip
    print("\n".join(boxes(top, 0, 0, WIDTH / max(top.samples, 1), top.samples)))
    print("</svg>")


if __name__ == "__main__":
    main()
