"""The progress of a job's stages for people: bytes or messages done, and in total.

Progress is derived from the files that tasks write in staging or, for stages without files, from
the share of finished tasks.
"""

from contextlib import AbstractContextManager
from functools import partial

from reput.jobs.engines.engine import Engine
from reput.jobs.opening.plan import Plan
from reput.jobs.pipeline.link import Linked
from reput.store_format.derived.queue_files import entry_bytes
from reput.store_format.files.protocol import Listed
from reput.store_format.notes import Done, Progress
from reput.udfs.staging import (
    RUNS,
    ListedSplits,
    Staging,
    is_derived_file,
    is_index_file,
    listed_in,
    past_of,
    split_of,
)

_QUEUE_ENTRY_BYTES = entry_bytes(False)


class Stages:
    """Shows each stage of one job while it runs."""

    def __init__(self, engine: Engine, plan: Plan, staging: Staging, progress: Progress) -> None:
        self._engine, self._plan, self._staging = engine, plan, staging
        self._progress = progress
        self._finished: dict[str, ListedSplits] = {}  # .runs files seen

    def scanned(self) -> AbstractContextManager[None]:
        """The scan of the log, by finished run files."""
        return self._progress.stage("scanned", self._scanned)

    def past_damage(self, segments: int) -> AbstractContextManager[None]:
        """The scan of damaged segments. segments: their number."""
        total = segments * self._plan.splits.segment_bytes
        return self._progress.stage("looked past damage", lambda: self._past_damage(total))

    def built(self, linked: Linked, index_bytes: int) -> AbstractContextManager[None]:
        """The build of queue and index files. index_bytes: of all index files together."""
        records = sum(row["records"] for row in linked.accepted)
        entries = records * _QUEUE_ENTRY_BYTES
        return self._progress.stage("built", lambda: self._built(records, entries, index_bytes))

    def by_tasks(self, name: str, total: int, what: str) -> AbstractContextManager[None]:
        """A query that writes nothing: its tasks share `total` of `what` about evenly."""
        return stage_by_tasks(self._engine, self._progress, name, total, what)

    def _staged(self) -> list[Listed]:
        """The files in staging. An error must not fail the job: S3 has no empty folders."""
        try:
            return self._staging.storage.list(self._staging.folder)
        except OSError:
            return []

    def _scanned(self) -> Done:
        for name, _ in self._staged():
            if name.endswith(RUNS) and name not in self._finished:
                listed = listed_in(self._staging, name)
                if listed is not None:
                    self._finished[name] = listed
        # by split, as an engine may run a task twice
        by_split = {split_of(name): listed for name, listed in self._finished.items()}
        total = self._plan.log_bytes
        splits = sum(listed.splits for listed in by_split.values())
        done = min(splits * self._plan.splits.split_bytes, total)
        messages = sum(listed.records for listed in by_split.values())
        return Done(done / total, f"{done:,} of {total:,} bytes, {messages:,} messages")

    def _past_damage(self, total: int) -> Done:
        done, ranges = past_of([name for name, _ in self._staged()])
        text = f"{done:,} of {total:,} bytes of damaged segments, {ranges:,} ranges"
        return Done(min(done / total, 1.0), text)

    def _built(self, records: int, entries: int, index_bytes: int) -> Done:
        """Queue files count at most the bytes of all entries, as their tails are empty."""
        sizes = [(name, state.size) for name, state in self._staged() if state is not None]
        index = sum(size for name, size in sizes if is_index_file(name))
        queues = sum(size for name, size in sizes if is_derived_file(name)) - index
        done, total = min(queues, entries) + min(index, index_bytes), entries + index_bytes
        text = f"{done:,} of {total:,} bytes, of {records:,} messages"
        return Done(done / total if total else None, text)


def stage_by_tasks(
    engine: Engine, progress: Progress, name: str, total: int, what: str
) -> AbstractContextManager[None]:
    """Show a stage by its finished tasks; each task stands for the same part of `total`."""
    return progress.stage(name, partial(_by_tasks, engine, total, what))


def _by_tasks(engine: Engine, total: int, what: str) -> Done:
    share = engine.share_done()
    if share is None:
        return Done(None, f"{total:,} {what}")
    return Done(share, f"about {int(share * total):,} of {total:,} {what}")
