"""Opens a writer on a store as a broker opens it, with settings, topics and the machine's clock,
and what it does after a crash.
"""

import os
import time
from collections.abc import Iterable, Mapping
from contextlib import closing
from typing import Any, NamedTuple

import numpy as np

from reput.broker.change.compaction import settle
from reput.broker.writer.writer import CommitLogWriter, Trial
from reput.jobs.opening.plan import Plan, index_zone
from reput.store_format.derived.after_crash import vouched_for
from reput.store_format.derived.checkpoint import Checkpoint, decode
from reput.store_format.discover.config import batch_topics
from reput.store_format.discover.delay_levels import SCHEDULE, assumed_delays
from reput.store_format.discover.purpose import APPEND
from reput.store_format.discover.sizes import SIZES, settings_to_continue
from reput.store_format.discover.store import (
    ERAS,
    RELEASE,
    Discovered,
    StoreAt,
    discover,
    setting_text,
)
from reput.store_format.faults import StoreError
from reput.store_format.files.by_url import storage_for
from reput.store_format.files.disk import DiskFiles
from reput.store_format.files.folder import Folder
from reput.store_format.files.local import LocalStorage
from reput.store_format.files.protocol import ANY_TIME, InputStorage
from reput.store_format.layouts import CHECKPOINT as CHECKPOINT_LAYOUT
from reput.store_format.layouts import IPV6_HOST, RECORD_HEAD, TIMESTAMP_BYTES
from reput.store_format.log.rules import RecordRules, head_bytes, store_timestamp_at
from reput.store_format.log.segments import Segment
from reput.store_format.log.there import strangers
from reput.store_format.names import ABORT, CHECKPOINT, COMMIT_LOG, CONSUME_QUEUE, LOCK, is_queue_id
from reput.store_format.notes import Notes
from reput.store_format.release.profiles import profile
from reput.store_format.release.setting_table import BY_NAME
from reput.store_format.release.settings import (
    WriterSettings,
    setting_warnings,
    writer_settings_from,
)


def local_store(path: str) -> str:
    """The path of a store to append to. Raises StoreError if the store is not local."""
    storage = storage_for(path)
    if not isinstance(storage, LocalStorage):
        raise StoreError(f"{path}: only a local store can be written to")
    return storage.resolve(path)


def local_store_at(
    path: str, rocketmq: str | None = None, settings: Mapping[str, str] | None = None
) -> StoreAt:
    """A store to append to. Raises StoreError if the store is not local."""
    return StoreAt(LocalStorage(), local_store(path), rocketmq, settings or {})


def open_writer(
    store: str,
    *,
    rocketmq: str | None = None,
    settings: Mapping[str, str] | None = None,
    dispatches: bool = True,
    prepare_ahead: bool = False,
    warnings: list[str] | None = None,
    discovered: dict[str, dict[str, Any]] | None = None,
) -> CommitLogWriter:
    """Open a local store for appending; `with` closes it as a clean stop does.

    rocketmq: None to take the release from the store's files. settings: by RocketMQ's names, as
    text; other settings come from the store's files, or a broker's configuration beside them.
    dispatches: also write ConsumeQueue and Index. prepare_ahead: make each segment while the
    previous one is filled. warnings: gets what a broker would do but the writer does not.
    discovered: gets the clues to the release. A store that was not closed is recovered first.
    Raises SettingError, UnknownRelease, StoreError (StoreInUse if a broker has it), OSError.
    """
    said = [] if warnings is None else warnings
    at = local_store_at(store, rocketmq, settings)
    path, (of_store, given, parsed) = at.path, _to_write(at, said)
    rules = profile(of_store.release)
    if discovered is not None:
        discovered |= of_store.of_release()
    zone = index_zone(at.folder, parsed)
    if discovered is not None:
        discovered |= zone.as_discovered()
    said += setting_warnings(given, rules.release, "append")
    found = strangers(at.folder, [f"{path}/{COMMIT_LOG}"])
    said += [f"{each.path}: {each.text(rules)}" for each in found]
    levels = _levels(at.folder)
    writer = CommitLogWriter.open(
        path,
        parsed,
        clock=_clock,
        release=rules.release,
        host=parsed.store_host,
        batch_topics=_batch_topics(at.folder, said),
        dispatches=dispatches,
        prepare_ahead=prepare_ahead,
        local=zone.local,
    )
    new = _levels(at.folder) - levels  # which recovery has dispatched
    try:
        said += assumed_delays(of_store.delays_shown, parsed.delays, new)
    except StoreError as error:
        said.append(str(error))
    writer.settle = lambda: settle(writer.store.files, at.folder, rules.release, given, Notes())
    return writer


def _levels(store: Folder) -> set[int]:
    """The levels of delay that have a queue of files."""
    names = (name for name, _ in store.listed(f"{CONSUME_QUEUE}/{SCHEDULE}"))
    return {int(name) + 1 for name in names if is_queue_id(name)}


def try_writer(at: StoreAt) -> Trial:
    """What refuses the messages that the writer of a local store would. Raises as `open_writer`."""
    said: list[str] = []
    of_store, _, parsed = _to_write(at, said)
    if os.path.isdir(at.path):
        parsed, _ = settings_to_continue(parsed, DiskFiles(at.path))
    return Trial(parsed, profile(of_store.release), _clock, _batch_topics(at.folder, said))


def _to_write(at: StoreAt, said: list[str]) -> tuple[Discovered, dict[str, str], WriterSettings]:
    """What a store shows, and its writer's settings: as text, and parsed. said: gets warnings."""
    of_store = discover(at, APPEND)
    given = dict(at.settings)
    if of_store.conf is not None and os.path.isdir(at.path):
        said += of_store.conf.warnings
        named = of_store.conf.settings.items()  # the files show sizes
        given = {n: text for n, text in named if BY_NAME[n].name not in SIZES} | given
    # what recovery dispatches again must be as the store's own queues have it
    texts = ((name, setting_text(of_store.found[name].value)) for name in of_store.found)
    given = {n: t for n, t in texts if n not in (*SIZES, RELEASE, ERAS)} | given
    return of_store, given, writer_settings_from(given, release=of_store.release)


def _clock() -> int:
    return time.time_ns() // 1_000_000


def _batch_topics(store: Folder, warnings: list[str]) -> Iterable[str]:
    notes = Notes()
    topics = batch_topics(store, notes)
    warnings += notes.lines
    return topics


# ---
# Whether a store's broker was stopped, and what it does by itself when it starts after a crash.

_HEAD_BYTES = RECORD_HEAD.itemsize + IPV6_HOST + TIMESTAMP_BYTES


class LeftOpen(NamedTuple):
    """Whether the file `abort` is there, and no broker is known to run.

    lock_unknown: a broker may run: there is no lock to ask, as on S3, or in a store without the
    file `lock` (before 4.2.0 no store has one, and a copy may lack it).
    """

    crashed: bool
    lock_unknown: bool


def left_open(plan: Plan) -> LeftOpen:
    """How the store of a plan was left (DefaultMessageStore.isTempFileExist)."""
    names = dict(plan.folder.listed())
    crashed = ABORT in names and not plan.in_use
    return LeftOpen(crashed, crashed and not (plan.storage.asks_locks and LOCK in names))


def read_checkpoint(store: Folder) -> Checkpoint | None:
    """A store's checkpoint; None if the file is missing or too short."""
    try:
        raw = store.read(CHECKPOINT)
    except FileNotFoundError:
        return None
    return decode(raw) if len(raw) >= CHECKPOINT_LAYOUT.itemsize else None


def dispatched_again_from(plan: Plan) -> int:
    """The physical offset from which the broker's recovery dispatches again.

    It is the start of the last segment whose first record the checkpoint vouches for, else of the
    log (CommitLog.recoverAbnormally, isMappedFileMatchedRecover). 5.5.0 uses the checkpoint's
    physical offset up to which queues were flushed, if it has one.
    """
    checkpoint = read_checkpoint(plan.folder)
    if checkpoint is not None:
        by_place = plan.profile.checkpoint_logics_offset and checkpoint.logics_physical_offset > 0
        for number in range(len(plan.segments) - 1, 0, -1):
            segment = plan.segments[number]
            timestamp = 0 if number in plan.odd else _first_timestamp(plan, segment)
            if by_place:
                vouched = segment.start <= checkpoint.logics_physical_offset
            else:
                vouched = timestamp <= vouched_for(checkpoint)
            if timestamp > 0 and vouched:
                return segment.start
    return plan.segments[0].start


def stored_at(storage: InputStorage, segment: Segment, at: int, rules: RecordRules) -> int:
    """The storeTimestamp of the record at a physical offset of a segment, without any check."""
    raw = np.zeros(_HEAD_BYTES, np.uint8)
    with closing(storage.open(segment.path, segment.state._replace(mtime=ANY_TIME))) as file:
        file.read_into(at - segment.start, raw[: segment.end - at])
    head = raw[: RECORD_HEAD.itemsize].view(RECORD_HEAD)[0]
    start = store_timestamp_at(int(head["sysFlag"]), rules)
    return int(raw[start : start + TIMESTAMP_BYTES].view(">i8")[0])


def _first_timestamp(plan: Plan, segment: Segment) -> int:
    at = segment.start + head_bytes(segment.end, plan.record_rules)
    return stored_at(plan.storage, segment, at, plan.record_rules)
