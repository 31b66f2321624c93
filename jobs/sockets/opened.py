"""A store opened to be served: its own queues or derived ones, and messages that were in flight."""

import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from itertools import groupby
from operator import attrgetter
from typing import NamedTuple

from reput.broker.serving.broker import Broker
from reput.broker.serving.groups import GroupOffsets, SubscriptionGroups
from reput.broker.serving.popped import CheckPoint
from reput.broker.serving.records import PullLimits
from reput.broker.serving.store import ServedStore, booted_topics, end_at
from reput.broker.wire.codes import Refused, ordinal
from reput.jobs.outputs.output import inputs_of
from reput.jobs.outputs.publish import Temporary, temporary_folder
from reput.jobs.outputs.report import counted
from reput.store_format.discover import config
from reput.store_format.discover.purpose import LOOK
from reput.store_format.discover.store import discover, store_at
from reput.store_format.faults import SALVAGE, StoreError
from reput.store_format.files.adapters import BlockCache, GrowingFiles
from reput.store_format.files.by_url import place_at
from reput.store_format.files.folder import Folder, Place
from reput.store_format.files.local import LocalStorage
from reput.store_format.files.protocol import InputStorage
from reput.store_format.log.reader import NoRecord, NotInLog
from reput.store_format.names import ABORT, BATCH_CONSUME_QUEUE, CONSUME_QUEUE
from reput.store_format.notes import Notes
from reput.store_format.query.pop_leftovers import in_flight
from reput.store_format.query.reader import NEWEST, OpenedStore
from reput.store_format.release.profiles import UnknownRelease

# ---
# Opens a store to be served.

_NAME, _CLUSTER = "reput", "DefaultCluster"
_MEMORY_SHARE = 40  # accessMessageInMemoryMaxRatio, percent
# The settings (MessageStoreConfig) of PullLimits' fields in order; the last field has none.
_LIMITS = (
    "maxTransferBytesOnMessageInMemory", "maxTransferCountOnMessageInMemory",
    "maxTransferBytesOnMessageInDisk", "maxTransferCountOnMessageInDisk", "maxFilterMessageSize",
)  # fmt: skip


class ServedSource(NamedTuple):
    path: str  # or URL
    rocketmq: str | None = None
    settings: Mapping[str, str] = {}
    derived: str | None = None  # a rebuilt set instead of the store's own queues and index
    at: int | None = None  # milliseconds since 1970: serve the store as it was then
    address: str | None = None  # the broker's address for clients
    follow: bool = False  # whether the store may grow


def open_broker(source: ServedSource, tell: Callable[[str], None]) -> Broker:
    """A broker on a store. Raises StoreError, SettingError, UnknownRelease, OSError."""
    notes = Notes(tell)
    place, derived = place_at(source.path), None
    storage = place.storage
    at = Folder(_read_by(storage, source.follow), place.path)
    if source.derived is not None:
        there = place_at(source.derived)
        derived = Folder(_read_by(there.storage, False), there.path)

    def again() -> OpenedStore:
        release = source.rocketmq or NEWEST
        return OpenedStore(at, release, source.settings, notes, derived=derived)

    limit = None
    if source.at is not None:
        with again() as opened:
            limit = end_at(opened.log, source.at, notes)
    store = ServedStore(again, notes, source.at, limit, far=not is_local(storage))
    opened = store.opened
    if derived is None and source.at is None and not source.follow:
        _note_more(store, notes)
    name = source.settings.get("brokerName", _NAME)
    cluster = source.settings.get("brokerClusterName", _CLUSTER)
    for each in booted_topics(opened.profile.release, name, cluster):
        store.make_topic(each)
    groups = config.subscription_groups(at, notes)
    offsets = config.consumer_offsets(at, notes)
    return Broker(
        store,
        name,
        cluster,
        ordinal(opened.profile.release),
        time.time_ns() // 1_000_000,
        GroupOffsets(offsets if source.at is None else _as_of(store, offsets, notes)),
        SubscriptionGroups(groups, opened.profile),
        source.address,
        limits=_limits(source.settings),
    )


def _as_of(store: ServedStore, offsets: config.Offsets, notes: Notes) -> config.Offsets:
    """Groups' offsets, no further than the end that each queue had at the time that is served; what
    they mean to a consumer is noted.
    """

    def end(topic: str, queue_id: int) -> int | None:
        queue = store.queue(topic, queue_id)
        return None if queue is None else queue.maximum

    found, text = config.offsets_as_of(offsets, end)
    if text:
        notes.note(text)
    return found


def _note_more(store: ServedStore, notes: Notes) -> None:
    """Add a note if a killed broker left records in the log that no queue has."""
    opened = store.opened
    if not any(name == ABORT for name, _ in opened.folder.listed()):
        return
    try:
        first = next(store.log.records(store.served_end()), None)
    except (NoRecord, NotInLog):
        return
    if first is not None:
        notes.note(
            f"{opened.path}: its broker was not stopped cleanly, and no queue has the messages "
            f"from physical offset {first.physical_offset} on: --rebuild serves them too"
        )


def _read_by(storage: InputStorage, follow: bool) -> InputStorage:
    """The storage for reading: cached if it is remote, and with growing files if followed."""
    if not is_local(storage):
        storage = BlockCache(storage)
    return GrowingFiles(storage) if follow else storage


def is_local(storage: InputStorage) -> bool:
    """Whether reads are fast, and files can be sent by sendfile."""
    return isinstance(storage, LocalStorage)


def _limits(settings: Mapping[str, str]) -> PullLimits:
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") * _MEMORY_SHARE // 100
    limits = PullLimits(memory_bytes=memory)
    given = {
        field: int(settings[name])
        for field, name in zip(PullLimits._fields, _LIMITS, strict=False)
        if name in settings
    }
    return limits._replace(**given)


# ---
# Derives queues and index for a store that has none, or whose own are not to be served.
#
# `reput rebuild` derives them into a temporary folder, which is removed when the server ends.

_REPUT = (
    "from reput.jobs.sockets.opened import end_with_parent; end_with_parent(); "
    "from reput.jobs.cli import main; raise SystemExit(main())"
)
_LEFT_OUT = 1  # exit code of a rebuild that left out damage
_KILL_SECONDS = 10


def has_queues(store: str) -> bool:
    """Whether a store has a folder of queues with anything in it."""
    there = place_at(store)
    return any(there.listed(folder) for folder in (CONSUME_QUEUE, BATCH_CONSUME_QUEUE))


@contextmanager
def derived_anew(
    store: str, rocketmq: str | None, settings: Mapping[str, str], salvage: bool,
    tell: Callable[[str], None],
) -> Iterator[str]:  # fmt: skip
    """Yield a set of derived files, which is removed after the block. Raises StoreError.

    salvage: skip damage in the log; else damage that live records follow is refused.
    """
    base = Place(LocalStorage(), tempfile.gettempdir())
    inputs = inputs_of(place_at(store), settings)
    with temporary_folder(base, Temporary.SERVE, inputs) as staging:
        made = f"{staging.folder}/set"
        release = rocketmq or _release(store, settings, tell)
        words = ["rebuild", store, "--output", made, "--rocketmq", release]
        words += [word for name in settings for word in ("--set", f"{name}={settings[name]}")]
        if salvage:
            words += ["--on-damage", SALVAGE]
        tell(f"queues and index are derived from the log, in {made}")
        _rebuild(words, salvage)
        yield made


def _release(store: str, settings: Mapping[str, str], tell: Callable[[str], None]) -> str:
    try:
        return discover(store_at(store, settings=settings), LOOK).release
    except UnknownRelease:
        tell(f"the log does not tell its release: it is read as {NEWEST} would (--rocketmq)")
        return NEWEST


def _rebuild(words: list[str], salvage: bool) -> None:
    """Run `reput rebuild`, which reports on standard error."""
    command = [sys.executable, "-c", _REPUT, *words]
    # the child's standard input closes when this process ends, even by SIGKILL
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=sys.stderr) as running:
        try:
            code = running.wait()
        except BaseException:
            running.terminate()
            try:
                running.wait(_KILL_SECONDS)
            except subprocess.TimeoutExpired:
                running.kill()
            raise
    if code and not (salvage and code == _LEFT_OUT):
        more = "" if salvage else "; --salvage serves past damage"
        raise StoreError(f"queues and index could not be derived (rebuild ended with {code}){more}")


# ---
# `--in-flight`: messages that consumers of the dead broker had popped and not acknowledged are
# given again, as the broker would do when it starts (PopReviveService).


def take_in_flight(broker: Broker, tell: Callable[[str], None]) -> None:
    """Put these messages in flight until their invisible time is over, mostly in the past."""
    rows = in_flight(broker.store.opened, False, Notes(tell))
    given = [
        row
        for row in rows
        # before its group's offset, so that no other pop would give it again
        if row.topic in broker.store.topics
        and row.offset < broker.offsets.query(row.group, row.topic, row.queue_id)
    ]
    taken, pop = 0, attrgetter("group", "topic", "queue_id", "since", "until")
    for (group, topic, queue_id, since, until), some in groupby(given, pop):
        positions = [row.offset for row in some]
        try:
            broker.in_flight.add(group, topic, CheckPoint(queue_id, positions, since, until))
        except Refused:
            continue
        taken += len(positions)
    tell(f"given again: {counted(taken, 'message')} in flight when the broker ended")
    if taken < len(given):
        tell(f"not given again: {counted(len(given) - taken, 'message')} more than can be kept")


# ---
# Ends a child process when its parent is gone, even if the parent was killed by SIGKILL.


def end_with_parent() -> None:
    """Send SIGTERM to this process once its standard input ends, and then SIGKILL if it lives on.

    Standard input is a pipe to which the parent writes nothing. The kernel closes the parent's end
    of the pipe when the parent ends, however it ends.
    """
    threading.Thread(target=_watch, name="with-parent", daemon=True).start()


def _watch() -> None:
    sys.stdin.buffer.raw.read(1)  # type: ignore[union-attr]
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(_KILL_SECONDS)
    os.kill(os.getpid(), signal.SIGKILL)
