"""`reput append` in this process, and what it leaves in a log."""

import argparse
from pathlib import Path

from reput.broker.writer.writer import DEFAULT_RELEASE
from reput.jobs import append
from reput.store_format.faults import StoreError
from tests.broker.writer.stores import stored_records


def run_append(words: list[str]) -> int:
    """`reput append`, with the command line's exit codes for errors."""
    parser = argparse.ArgumentParser()
    append.add_arguments(parser)
    try:
        return append.run(parser.parse_args(["--yes", "--rocketmq", DEFAULT_RELEASE, *words]))
    except (StoreError, OSError):
        return 3


SIZES = [f"--set={n}={v}" for n, v in {"mappedFileSizeCommitLog": 1 << 20, "maxHashSlotNum": 16,
                                       "maxIndexNum": 20_000}.items()]  # fmt: skip


def bodies(store: Path) -> list[int]:
    return [int(record.body) for record in stored_records(store / "commitlog")]
