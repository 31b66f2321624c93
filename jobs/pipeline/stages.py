"""How a job's stages are cut into tasks, and what people see of them while they run."""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from contextlib import AbstractContextManager
from functools import partial

from reput.jobs.engines.engine import Engine
from reput.jobs.opening.plan import Plan
from reput.jobs.pipeline.link import Linked
from reput.store_format.derived.queue_files import entry_bytes
from reput.store_format.files.manifest_last import ManifestLast
from reput.store_format.files.protocol import Listed
from reput.store_format.notes import Done, Progress
from reput.udfs.staging import RUNS, Staging, is_derived_file, is_index_file, past_of, split_of

# ---
# The progress of a job's stages for people: bytes or messages done, and in total.
#
# On a local disk progress is derived from the files that tasks write in staging. Elsewhere, and for
# stages without files, from the share of finished tasks: there a look at files is a request each.


class Stages:
    """Shows each stage of one job while it runs."""

    def __init__(self, engine: Engine, plan: Plan, staging: Staging, progress: Progress) -> None:
        self._engine, self._plan, self._staging = engine, plan, staging
        self._progress = progress
        self._counts_tasks = isinstance(staging.storage, ManifestLast)

    def scanned(
        self, numbers: Sequence[int], groups: Sequence[int]
    ) -> AbstractContextManager[None]:
        """The scan of the splits `numbers` by tasks that begin at these indices."""
        return self._progress.stage("scanned", lambda: self._scanned(numbers, groups))

    def past_damage(self, segments: int) -> AbstractContextManager[None]:
        """The scan of damaged segments. segments: their number."""
        total = segments * self._plan.splits.segment_bytes
        return self._progress.stage("looked past damage", lambda: self._past_damage(total))

    def built(self, linked: Linked, index_bytes: int) -> AbstractContextManager[None]:
        """The build of queue and index files. index_bytes: of all index files together."""
        records = messages(linked)
        entries = records * entry_bytes(False)
        if self._counts_tasks:
            return self.by_tasks("built", entries + index_bytes, f"bytes, of {records:,} messages")
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

    def _scanned(self, numbers: Sequence[int], groups: Sequence[int]) -> Done:
        splits, log_bytes = self._plan.splits, self._plan.log_bytes
        total = min(len(numbers) * splits.split_bytes, log_bytes)
        if self._counts_tasks:
            share = self._engine.share_done()
            if share is None:
                return Done(None, f"{total:,} bytes")
            tasks = int(share * len(groups))  # they begin in this order, the large ones first
            done = groups[tasks] if tasks < len(groups) else len(numbers)
        else:
            done = self._listed(numbers, groups)
        text = f"{min(done * splits.split_bytes, total):,} of {total:,} bytes"
        return Done(done / len(numbers), text)

    def _listed(self, numbers: Sequence[int], groups: Sequence[int]) -> int:
        """How many splits are done: in each task, those up to the last one that has a list."""
        furthest: dict[int, int] = {}
        for name, _ in self._staged():
            at = bisect_left(numbers, split_of(name)) if name.endswith(RUNS) else len(numbers)
            if at < len(numbers) and numbers[at] == split_of(name):
                task = bisect_right(groups, at) - 1
                furthest[task] = max(furthest.get(task, 0), at + 1 - groups[task])
        return sum(furthest.values())

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


# ---
# The number of pieces of work in each task: many at first, one at last.

_PARTS_A_CORE = 2
_PIECES_A_TASK, _LOG_OF_A_TASK = 64, 3 << 30  # of so much log a scan writes about 256 MB
_TASKS_A_CORE = 64


def guided(pieces: int, cores: int, piece_bytes: int = 1) -> tuple[int, ...]:
    """The first piece of each task; it has the pieces up to the next task's first, or to the end.

    A task costs Spark as much time as some pieces do, so there should be few tasks. Yet all cores
    should be busy to the end, though pieces take different times. So a task gets a share of the
    pieces left when it begins ("guided self-scheduling"). No task has more than a few minutes'
    work, which would be lost if it failed, unless there would be too many tasks.
    """
    most = max(1, min(_PIECES_A_TASK, _LOG_OF_A_TASK // piece_bytes))
    most = max(most, -(-pieces // (_TASKS_A_CORE * cores)))
    starts, at = [], 0
    while at < pieces:
        starts.append(at)
        at += min(most, -(-(pieces - at) // (_PARTS_A_CORE * cores)))
    return tuple(starts)


def messages(linked: Linked) -> int:
    """The number of messages in the accepted splits."""
    return sum(row["records"] for row in linked.accepted)
