"""The session of a command that reads a whole log."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from reput.jobs.console.store_there import check_told
from reput.store_format.names import COMMIT_LOG
from reput.store_format.storage import storage_for
from reput.store_format.storage.early_reads import EarlyReads
from reput.store_format.storage.local import LocalStorage

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@contextmanager
def log_session(
    arguments: argparse.Namespace, told: Mapping[str, Any], compared: str | None = None
) -> Iterator[SparkSession]:
    """Yield the session that a command runs on, and stop it afterwards.

    While Spark's JVM starts, what the store does not tell is asked for, so that an error comes at
    once; then a local session has the log's first bytes read from disk.

    compared: the folder whose derived files are compared, where a job does that.
    """
    from reput.jobs.spark.session import command_session, is_own_local

    early = _early_reads(arguments.store) if is_own_local(arguments.master) else None

    def meanwhile() -> None:
        check_told(arguments.store, told["rocketmq"], told["settings"], compared)
        if early is not None:
            early.start()

    with command_session(arguments.master, meanwhile=meanwhile) as spark:
        if early is not None:
            early.end_soon()
        yield spark


def _early_reads(store: str) -> EarlyReads | None:
    """None for a URL. A log that its configuration puts elsewhere is not read early."""
    storage = storage_for(store)
    if not isinstance(storage, LocalStorage):
        return None
    return EarlyReads(storage, f"{storage.resolve(store)}/{COMMIT_LOG}")
