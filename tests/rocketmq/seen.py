"""Which clients were seen to read what from `reput serve`: the table of docs/serve.md.

A test that has seen a client read what it reads from the real broker notes it, in a file and in the
page; `python -m tests.rocketmq.seen` writes the page's table anew.
"""

from __future__ import annotations

import fcntl
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
# In a package of its own: a file beside a test makes each test of its folder due when it changes.
FILE = Path(__file__).parent / "languages" / "clients_seen.tsv"
PAGE = ROOT / "docs" / "serve.md"
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
    """Keep what was seen, and show it in the page."""
    with FILE.open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        rows = sorted({*noted(), *seen})
        FILE.write_text("".join("\t".join(row) + "\n" for row in (_HEAD, *rows)))
        main()


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
