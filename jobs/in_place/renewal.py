"""Decides which derived files of a store are rewritten or removed so that they match its log."""

from collections.abc import Sequence
from typing import NamedTuple

from reput.broker.change.expire import StagedFile
from reput.broker.change.install import last_offset
from reput.jobs.judging.verdict import Verdict, files_there
from reput.jobs.opening.held import HeldStore
from reput.jobs.outputs.publish import Built
from reput.jobs.pipeline.pipeline import Pipeline
from reput.store_format.faults import StoreError
from reput.store_format.names import (
    BATCH_CONSUME_QUEUE,
    CONSUME_QUEUE,
    INDEX,
    index_name,
    next_index_time,
    parse_index_name,
)


class Renewal(NamedTuple):
    """The files that get new content, and the files that are removed. Paths are below the store."""

    placed: list[StagedFile]
    removed: list[str]


class _Compared(NamedTuple):
    """A store's derived files and the verdict on them. Paths are below the store."""

    held: HeldStore
    log_start: int  # physical
    staging: str
    verdict: Verdict
    wrong: set[str]
    there: set[str]

    def placed(self, row: Built, path: str) -> StagedFile:
        return StagedFile(f"{self.staging}/{row['name']}", path)


def renewal(held: HeldStore, job: Pipeline, verdict: Verdict) -> Renewal:
    """The renewal that makes derived files match their log. Raises StoreError if none can."""
    compared = _Compared(
        held,
        job.plan.segments[0].start,
        job.staging.folder.removeprefix(held.path + "/"),
        verdict,
        {e.path.removeprefix(held.path + "/") for e in (*verdict.differences, *verdict.behind)},
        set(files_there(held.storage, held.path)),
    )
    queues = _queues(compared)
    if not any(path.startswith(f"{INDEX}/") for path in compared.wrong):
        return queues
    index = _index(compared)
    return Renewal(queues.placed + index.placed, queues.removed + index.removed)


def _queues(compared: _Compared) -> Renewal:
    wrong = compared.wrong
    queues = {row["path"]: row for row in compared.verdict.named if row["folder"] != INDEX}
    renewed = _renewed(compared, queues)
    for path in sorted(wrong - queues.keys()):
        _refuse_expired(compared, path)
    placed = [
        compared.placed(row, path)
        for path, row in queues.items()
        if path in wrong or row["folder"] in renewed
    ]
    removed = [
        path
        for path in sorted(compared.there)
        if path not in queues
        and not path.startswith(f"{INDEX}/")
        and (path in wrong or path.rpartition("/")[0] in renewed)
    ]
    return Renewal(placed, removed)


def _refuse_expired(compared: _Compared, path: str) -> None:
    """Raise StoreError if a file to be removed holds entries of expired messages.

    The log has no records of these messages, so their entries may be the only ones to show the
    next position of their queue.
    """
    if not path.startswith(f"{CONSUME_QUEUE}/"):
        return
    last = last_offset(compared.held.files, path)
    if last is not None and last < compared.log_start:
        raise StoreError(
            f"{compared.held.path}/{path}: has another length than its setting says, and holds "
            f"expired messages, which recover cannot derive: give it its length, or move it away"
        )


def _renewed(compared: _Compared, queues: dict[str, Built]) -> set[str]:
    """Folders of the batch queues that must be written as a whole.

    If messages have expired, the derived entries stand at other places in the files.
    """
    if not compared.log_start:
        return set()
    folders = {row["folder"] for row in queues.values()}
    bad = {path.rpartition("/")[0] for path in compared.wrong}
    return {f for f in folders & bad if f.startswith(f"{BATCH_CONSUME_QUEUE}/")}


def _index(compared: _Compared) -> Renewal:
    """Renew the index files from the first wrong one on, as each depends on the file before it.

    Files with expired messages only stay.
    """
    verdict = compared.verdict
    rows = [row for row in verdict.named if row["folder"] == INDEX]
    index = sorted(path for path in compared.there if path.startswith(f"{INDEX}/"))
    expired, old = index[: verdict.expired_index], index[verdict.expired_index :]
    sound = 0
    while sound < min(len(old), len(rows)) and old[sound] not in compared.wrong:
        sound += 1
    names = _names_after(
        [path.rpartition("/")[2] for path in (*expired, *old[:sound])],
        [row["path"].rpartition("/")[2] for row in rows[sound:]],
    )
    paths = [f"{INDEX}/{name}" for name in names]
    placed = [compared.placed(r, p) for r, p in zip(rows[sound:], paths, strict=True)]
    return Renewal(placed, [path for path in old[sound:] if path not in paths])


def _names_after(kept: Sequence[str], wanted: Sequence[str]) -> list[str]:
    """The wanted names, raised where needed so that each is above the name before it.

    kept: names of files that stay; all names of the result are above the last kept name.
    """
    before = parse_index_name(kept[-1]) if kept else None
    names = []
    for name in wanted:
        before = next_index_time(parse_index_name(name), before)
        names.append(index_name(before))
    return names
