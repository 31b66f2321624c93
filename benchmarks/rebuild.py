"""Whole rebuilds, timed beside RocketMQ's own on the same stores in the same run.

`python -m benchmarks.rebuild [--runs N] [--rows NAME,...] [--large]` makes the stores with the
real RocketMQ (once; they are kept in the cache folder), times whole processes, theirs and ours
alternately and each from the same state (benchmarks/state.py), compares the bytes, and prints a
table and one JSON line, which it also writes to benchmarks/results.json in the cache folder.
--large adds 15 GB, 16,000 and 200,000 queues, 4,096 splits and an installed reput.
"""

import argparse
import json
import sys

from benchmarks.further_rows import against
from benchmarks.rows import AROUND, LONG, ROWS, Row
from benchmarks.stores import cache_folder

_COLUMNS = (
    ("messages", "messages", "{:,}"),
    ("log GB", "log_bytes", "{:.2f}"),
    ("RocketMQ s", "rocketmq_seconds", "{:.1f}"),
    ("reput s", "reput_seconds", "{:.1f}"),
    ("ratio", "ratio", "{:.2f}"),
    ("on Spark s", "spark_seconds", "{:.1f}"),
    ("ratio", "spark_ratio", "{:.2f}"),
    ("no CRC s", "no_check_seconds", "{:.1f}"),
    ("ratio", "no_check_ratio", "{:.2f}"),
    ("msg/s", "messages_per_second", "{:,}"),
    ("MB/s", "bytes_per_second", "{:,.0f}"),
    ("MiB", "all_mib", "{:,}"),
    ("bytes", "same_bytes", "{}"),
)
_UNITS = {"log_bytes": 1e9, "bytes_per_second": 1e6}
_NOTES = (
    "speed_up", "bare_speed_up", "slower_percent", "trivial_job_seconds", "busy_cores",
    "slope_ratio", "no_check_slope_ratio", "spark_slope_ratio", "bare_slope_ratio",
    "first_seconds", "second_seconds",
    "clone_seconds", "split_more_ms", "bare_seconds", "bare_work", "share", "share_of_work",
    "cluster_bare", "local_bare", "cluster_bare_work", "local_bare_work", "disk_seconds",
    "scan_seconds", "spark_mib", "check_local", "check_spark", "verify_local", "verify_spark",
    "recover_local", "recover_spark", "read_rocksdb_us", "read_files_us",
    "report_of_check", *AROUND,
)  # fmt: skip


def _cell(row: Row, key: str, shown: str) -> str:
    value = row.get(key)
    if value is None:
        return ""
    if isinstance(value, bool):
        return "the same" if value else "DIFFER"
    return shown.format(value / _UNITS[key] if key in _UNITS else value)


def table(rows: dict[str, Row]) -> str:
    """The rows as text, with what is special to a row behind it."""
    lines = [["", *(title for title, _, _ in _COLUMNS)]]
    for name, row in rows.items():
        lines.append([name, *(_cell(row, key, shown) for _, key, shown in _COLUMNS)])
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    notes = [""] + [
        "  ".join(f"{note}: {row[note]}" for note in _NOTES if note in row) for row in rows.values()
    ]
    return "\n".join(
        f"{line[0]:<{widths[0]}}  "
        + "  ".join(f"{cell:>{width}}" for cell, width in zip(line[1:], widths[1:], strict=True))
        + f"  {note}"
        for line, note in zip(lines, notes, strict=True)
    )


def slopes(usual: Row, large: Row) -> Row:
    """RocketMQ's marginal cost over ours, between the two sizes, and over the bare programs'."""

    def between(key: str) -> float:
        return float(large[key] - usual[key])

    theirs = between("rocketmq_seconds")
    ours = {
        "slope_ratio": "reput_seconds",
        "no_check_slope_ratio": "no_check_seconds",
        "bare_slope_ratio": "bare_work",
        "spark_slope_ratio": "spark_seconds",
    }
    return {name: round(theirs / between(key), 2) for name, key in ours.items()}


# Rows of a store that another row has RocketMQ's time for, on both cores.
_SAME_STORE = {
    "one core": "usual",
    "cluster": "usual",
    "installed by pip": "usual",
    "large by cores": "large",
}


def put_beside(rows: dict[str, Row]) -> None:
    """Add to rows what only the rows of a whole run can say: RocketMQ's time, and slopes."""
    for name, other in _SAME_STORE.items():
        if name in rows and other in rows:
            seconds = rows[other]["rocketmq_seconds"]
            ours = rows[name].get("reput_seconds")
            rows[name].update(against(seconds, ours) if ours else {"rocketmq_seconds": seconds})
    if "usual" in rows and "large" in rows:
        rows["large"].update(slopes(rows["usual"], rows["large"]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--rows", help=f"some of: {', '.join(ROWS)}")
    parser.add_argument("--large", action="store_true", help="all rows (50 GB of disk)")
    arguments = parser.parse_args()
    usually = [name for name in ROWS if name not in LONG]
    names = arguments.rows.split(",") if arguments.rows else usually
    unknown = [name for name in names if name not in ROWS]
    if unknown:
        parser.error(f"--rows: there is no {unknown[0]!r}, but {', '.join(ROWS)}")
    if arguments.large:
        names += [name for name in LONG if name not in names]
    rows: dict[str, Row] = {}
    for name in names:
        print(f"{name} ...", file=sys.stderr, flush=True)
        rows[name] = ROWS[name](arguments.runs)
        put_beside(rows)
        (cache_folder() / "results.json").write_text(json.dumps(rows) + "\n")
    print(table(rows))
    print(json.dumps(rows))
    sys.exit(0 if all(row.get("same_bytes", True) for row in rows.values()) else 1)


if __name__ == "__main__":
    main()
