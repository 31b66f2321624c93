"""Which clients were seen to read what from `reput serve`: the table of docs/serve.md.

A test that has seen a client read what it reads from the real broker notes it, in a file and in the
page; `python -m tests.rocketmq.seen` writes the page's table anew."""

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
    """The table as the page has it: a row for each client, and for releases and ways of one that
    read the same."""
    reads: dict[tuple[str, ...], list[str]] = {}
    for row in noted():
        reads.setdefault(row[:3], []).append(row.reads)
    rows = [(*key, ", ".join(each)) for key, each in reads.items()]
    rows = _joined(_joined(rows, at=1), at=2)
    lines = ["| client | release | by | reads |", "|---|---|---|---|"]
    return "\n".join([*lines, *(f"| {' | '.join(row)} |" for row in rows)])


def _joined(rows: list[tuple[str, ...]], at: int) -> list[tuple[str, ...]]:
    """Rows that differ in one place only, as one."""
    found: dict[tuple[str, ...], list[str]] = {}
    for row in rows:
        found.setdefault((*row[:at], *row[at + 1 :]), []).append(row[at])
    return [(*key[:at], ", ".join(values), *key[at:]) for key, values in found.items()]


def page_table() -> str:
    """The table that stands in the page."""
    return PAGE.read_text().partition(_BEGIN)[2].partition(_END)[0].strip()


def main() -> None:
    before, _, rest = PAGE.read_text().partition(_BEGIN)
    _, _, after = rest.partition(_END)
    PAGE.write_text(f"{before}{_BEGIN}\n{table()}\n{_END}{after}")


if __name__ == "__main__":
    main()
