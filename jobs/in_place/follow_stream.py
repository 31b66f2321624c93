"""`--follow` as a Structured Streaming query: each growth of the log gives a batch, and each batch
is one round of catch-up. The query's checkpoint keeps the growth seen. Progress itself is kept in
the derived files, so a batch repeated after a kill finds its work done.
"""

import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from reput.jobs.in_place.follow import LogListing, Rounds, consented, one_round
from reput.jobs.opening.held import HeldStore
from reput.jobs.outputs.output import inputs_of, refuse_overlap
from reput.store_format.discover.store import StoreAt
from reput.store_format.faults import StoreError
from reput.store_format.files.local import LocalStorage
from reput.store_format.log.segments import commit_log_folders
from reput.store_format.notes import Progress
from reput.store_format.release.settings import settings_from

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_LOOK_SECONDS = 0.2


def follow_stream(
    spark: "SparkSession", checkpoint: str, held: HeldStore, at: StoreAt, progress: Progress,
    confirm: Callable[[str], None], rounds: Rounds,
) -> None:  # fmt: skip
    """Catch up with each growth of a held store's log.

    checkpoint: folder of the query's checkpoint, outside the store.
    at: the held store with the user's release and settings. Raises as one_round does.
    """
    from reput.jobs.in_place.log_growth import NAME, LogGrowth

    local = LocalStorage()
    refuse_overlap(local, checkpoint, inputs_of(local, held.path, at.settings))
    failed: list[BaseException] = []
    last = time.monotonic()
    seen: LogListing = ()
    one_at_a_time = threading.Lock()

    def catch_up() -> None:
        nonlocal last, seen, confirm
        with one_at_a_time:
            before = seen
            about, seen = one_round(held, at, progress, confirm, before)
            if about is not None and about.done:
                rounds.said(about)
                confirm = consented
            if seen != before:
                last = time.monotonic()

    def batch(frame: "DataFrame", _number: int) -> None:
        frame.collect()
        try:
            catch_up()
        except BaseException as error:
            failed.append(error)
            raise

    spark.dataSource.register(LogGrowth)
    folders = "\n".join(commit_log_folders(held.path, settings_from(at.settings)))
    frame = spark.readStream.format(NAME).option("folders", folders).load()
    query = (
        frame.writeStream.foreachBatch(batch)
        .option("checkpointLocation", checkpoint)
        .trigger(processingTime=f"{rounds.every} seconds")
        .start()
    )
    try:
        while query.isActive:
            time.sleep(_LOOK_SECONDS)
            if time.monotonic() - last >= rounds.every + _LOOK_SECONDS:
                catch_up()  # without growth no batch comes, but the last record counts only now
            if rounds.idle is not None and time.monotonic() - last >= rounds.idle:
                break
    finally:
        query.stop()
    if failed:
        raise failed[0]
    error = query.exception()
    if error is not None:
        raise StoreError(f"the streaming query ended: {type(error).__name__}") from error
