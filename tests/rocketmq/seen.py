"""Which clients were seen to read what from `reput serve`: the table of docs/serve.md.

A test that has seen a client read what it reads from the real broker notes it; `python -m
tests.rocketmq.seen` writes the table anew from what is noted.
"""

from __future__ import annotations

import fcntl
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
FILE, PAGE = Path(__file__).parent / "clients_seen.tsv", ROOT / "docs" / "serve.md"
_HEAD = ("client", "release", "by", "reads")
_BEGIN, _END = "<!-- clients seen -->", "<!-- end of clients seen -->"


class Seen(NamedTuple):
    """One client, and what it read."""

    client: str
    release: str
    by: str  # how it reached the server
    reads: str


def noted() -> list[Seen]:
    lines = FILE.read_text().splitlines()[1:] if FILE.exists() else []
    return [Seen(*line.split("\t")) for line in lines]


def note(*seen: Seen) -> None:
    """Keep what was seen."""
    with FILE.open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        rows = sorted({*noted(), *seen})
        FILE.write_text("".join("\t".join(row) + "\n" for row in (_HEAD, *rows)))


def table() -> str:
    """The table as the page has it: a row for each client and release."""
    reads: dict[tuple[str, str, str], list[str]] = {}
    for row in noted():
        reads.setdefault(row[:3], []).append(row.reads)
    lines = ["| client | release | by | reads |", "|---|---|---|---|"]
    lines += [f"| {' | '.join(key)} | {', '.join(each)} |" for key, each in reads.items()]
    return "\n".join(lines)


def page_table() -> str:
    """The table that stands in the page."""
    return PAGE.read_text().partition(_BEGIN)[2].partition(_END)[0].strip()


def main() -> None:
    before, _, rest = PAGE.read_text().partition(_BEGIN)
    _, _, after = rest.partition(_END)
    PAGE.write_text(f"{before}{_BEGIN}\n{table()}\n{_END}{after}")


if __name__ == "__main__":
    main()
