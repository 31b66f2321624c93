"""Catches up in rounds while a log is being copied in.

Progress is kept in the derived files alone. So each round begins like the first, and a kill costs
at most one round (docs/decisions/0014-catch-up-in-place.md).
"""

import time
from collections.abc import Callable
from typing import Any

from reput.jobs.in_place.catch_up import CaughtUp, catch_up_in_place, mend_lost
from reput.jobs.opening.held import HeldStore, refuse_log_elsewhere
from reput.jobs.opening.plan import Plan, make_plan
from reput.store_format.discover.purpose import FOLLOW
from reput.store_format.discover.store import StoreAt, discover
from reput.store_format.faults import StoreError
from reput.store_format.files.folder import Folder
from reput.store_format.files.protocol import ANY_TIME, FileState
from reput.store_format.log.segments import Segment, commit_log_folders
from reput.store_format.notes import Progress
from reput.store_format.release.settings import settings_from

LogListing = tuple[tuple[str, str, FileState], ...]  # folder, name and state of each segment


def one_round(
    held: HeldStore, at: StoreAt, progress: Progress, confirm: Callable[[str], None],
    before: LogListing = (),
) -> tuple[CaughtUp | None, LogListing]:  # fmt: skip
    """Catch up with a growing log: (report, listing of the log); no report without a segment.

    at: the held store with the user's release and settings. before: the listing of the round
    before; if it is unchanged, the last record counts as completely copied.
    Raises StoreError, SettingError, UnknownRelease, OSError.
    """
    folders = commit_log_folders(held.path, settings_from(at.settings))
    seen = tuple(
        (each.path, name, state)
        for each in (Folder(held.storage, folder) for folder in folders)
        for name, state in each.listed()
        if state and state.size
    )
    if not seen:
        return None, seen
    plan = growing_plan(at)
    about = catch_up_in_place(
        held, plan, progress, confirm, growing=True, settled=seen == before
    )  # fmt: skip
    return about, seen


def growing_plan(at: StoreAt) -> Plan:
    """The plan of the segments before the first hole; the last may be incomplete."""
    plan = make_plan(at, discover(at, FOLLOW), FOLLOW)
    size = plan.settings.mapped_file_size_commit_log
    kept: list[Segment] = []
    for number, segment in enumerate(plan.segments):
        if kept and segment.start != kept[-1].start + size:
            break  # a segment before it is not copied yet
        if segment.state.size > size:
            raise StoreError(
                f"{segment.path}: has {segment.state.size} bytes, but mappedFileSizeCommitLog is "
                f"{size}"
            )
        kept.append(segment._replace(state=segment.state._replace(mtime=ANY_TIME)))
        if number in plan.odd:
            break  # its rest is not copied yet
    plan.segments[:] = kept
    refuse_log_elsewhere(plan.store, plan.segments, "catch-up without --output")
    return plan


def follow(asked: Any, held: HeldStore, at: StoreAt) -> CaughtUp | None:
    """Catch up in rounds; the last report. asked: as jobs/catch_up.py declares it. Raises as
    one_round does.
    """
    since, about, confirm = time.monotonic(), None, asked.confirm
    seen: LogListing = ()
    while True:
        before = seen
        found, seen = one_round(held, at, asked.shows, confirm, before)
        about = found or about
        if found is not None and found.done:
            asked.said(found)
            confirm = consented
            since = time.monotonic()
        elif seen != before:
            since = time.monotonic()
        elif asked.idle is not None and time.monotonic() - since >= asked.idle:
            end(asked, held, at, confirm, about)
            return about
        time.sleep(asked.every)


def end(
    asked: Any, held: HeldStore, at: StoreAt, confirm: Callable[[str], None], about: CaughtUp | None
) -> None:  # fmt: skip
    """Write what services lack, once the log has its end. about: of the last round."""
    if about is not None:
        mend_lost(held, growing_plan(at), confirm, about)
        if about.waits:
            asked.said(about)


def consented(_: str) -> None:
    """Stands in for `confirm` once the user has consented."""
