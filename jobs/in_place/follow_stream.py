"""`--follow` as a Structured Streaming query: each growth of the log gives a batch, and each batch
is one round of catch-up. The query's checkpoint keeps the growth seen. Progress itself is kept in
the derived files, so a batch repeated after a kill finds its work done.
"""

import sys
import threading
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition

from reput.jobs.in_place.catch_up import CaughtUp
from reput.jobs.in_place.follow import LogListing, consented, end, one_round
from reput.jobs.opening.held import HeldStore
from reput.jobs.outputs.output import inputs_of, refuse_overlap
from reput.store_format.discover.store import StoreAt
from reput.store_format.faults import StoreError
from reput.store_format.files.by_url import place_at
from reput.store_format.files.folder import Place
from reput.store_format.files.local import LocalStorage
from reput.store_format.log.segments import commit_log_folders
from reput.store_format.release.settings import settings_from

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_LOOK_SECONDS = 0.2


def follow_stream(
    spark: "SparkSession", checkpoint: str, asked: Any, held: HeldStore, at: StoreAt
) -> None:  # fmt: skip
    """Catch up with each growth of a held store's log. asked: as jobs/catch_up.py declares it.

    checkpoint: folder of the query's checkpoint, outside the store.
    at: the held store with the user's release and settings. Raises as one_round does.
    """
    local = LocalStorage()
    refuse_overlap(Place(local, checkpoint), inputs_of(held.folder, at.settings))
    failed: list[BaseException] = []
    last = time.monotonic()
    seen: LogListing = ()
    confirm = asked.confirm
    newest: CaughtUp | None = None
    one_at_a_time = threading.Lock()

    def catch_up() -> None:
        nonlocal last, seen, confirm, newest
        with one_at_a_time:
            before = seen
            about, seen = one_round(held, at, asked.shows, confirm, before)
            newest = about or newest
            if about is not None and about.done:
                asked.said(about)
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
        .queryName(f"reput: catch up {held.path}")
        .option("checkpointLocation", checkpoint)
        .trigger(processingTime=f"{asked.every} seconds")
        .start()
    )
    try:
        while query.isActive:
            time.sleep(_LOOK_SECONDS)
            if time.monotonic() - last >= asked.every + _LOOK_SECONDS:
                catch_up()  # without growth no batch comes, but the last record counts only now
            if asked.idle is not None and time.monotonic() - last >= asked.idle:
                break
    finally:
        query.stop()
    if failed:
        raise failed[0]
    error = query.exception()
    if error is not None:
        raise StoreError(f"the streaming query ended: {type(error).__name__}") from error
    end(asked, held, at, confirm, newest)


# ---
# A streaming source with a row for each growth of a log's files.
#
# Its offsets, which Structured Streaming keeps in the checkpoint, are the size of the log's files
# in bytes and the last time that one of them changed. It reads no records: a catch-up continues
# from the derived files.

NAME = "reput_log_growth"
_NONE = {"bytes": 0, "changed": 0}


class LogGrowth(DataSource):
    """The source. Option `folders`: the folders of segments, one path or URL per line."""

    @classmethod
    def name(cls) -> str:
        return NAME

    def schema(self) -> str:
        return "bytes BIGINT, changed BIGINT, seen BIGINT"

    def streamReader(self, schema: Any) -> "GrowthReader":  # noqa: N802 (Spark's name)
        return GrowthReader(self.options["folders"].splitlines())


def _end_quietly(kind: type[BaseException], error: BaseException, trace: Any) -> None:
    """Spark ends the reader's process by closing its pipe, which is no error."""
    if not issubclass(kind, (BrokenPipeError, EOFError)):
        sys.__excepthook__(kind, error, trace)


class GrowthReader(DataSourceStreamReader):
    """Lists the folders for the sizes and times of their files."""

    def __init__(self, folders: list[str]) -> None:
        self.folders = folders
        sys.excepthook = _end_quietly

    def initialOffset(self) -> dict[str, int]:  # noqa: N802 (Spark's name)
        return dict(_NONE)

    def latestOffset(self, *_: Any) -> dict[str, int]:  # noqa: N802 (Spark's name)
        found = dict(_NONE)
        for folder in self.folders:
            for _name, state in place_at(folder).listed():
                if state is not None:
                    found["bytes"] += state.size
                    found["changed"] = max(found["changed"], state.mtime)
        return found

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> list[InputPartition]:
        return [InputPartition((end["bytes"], end["changed"]))]

    def read(self, partition: InputPartition) -> Iterator[tuple[int, int, int]]:
        size, changed = partition.value
        yield size, changed, time.time_ns()
