"""Makes a store of a moment of a backup repository, on which a broker starts at once: its log, what
the log does not decide, and all derived files.
"""

import json
import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from copy import deepcopy
from dataclasses import asdict, dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from reput.jobs.console.moment import Found
from reput.jobs.console.voice import time_text
from reput.jobs.deriving.derive_set import ToDerive, derive_into
from reput.jobs.deriving.kept import LastEntry, Queue, StateCopy
from reput.jobs.opening.plan import kind_of_index, kind_of_queues
from reput.jobs.outputs.output import RESTORED, Output
from reput.jobs.outputs.publish import begin_set, end_set
from reput.jobs.outputs.report import OutputFile, counted, files_text, found_lines
from reput.jobs.pipeline.job import FoundStore
from reput.store_format.derived.queues import Queues
from reput.store_format.discover import config
from reput.store_format.discover.purpose import REBUILD
from reput.store_format.faults import REFUSE
from reput.store_format.files.by_url import storage_for
from reput.store_format.files.catalogue import Catalogue
from reput.store_format.files.disk import DiskFiles
from reput.store_format.files.folder import Place
from reput.store_format.files.local import LocalStorage
from reput.store_format.files.private import Scratch, scratch_folder
from reput.store_format.files.protocol import put_as
from reput.store_format.java import quoted_keys
from reput.store_format.names import (
    COMMIT_LOG,
    CONFIG,
    LMQ_OFFSETS,
    OFFSETS,
    REVIVE_TOPIC,
    TOPICS,
    is_queue_id,
    segment_name,
)
from reput.store_format.notes import Notes
from reput.store_format.query.reader import OpenedStore
from reput.store_format.rocksdb.database import Database, copy_changed, open_database
from reput.store_format.rocksdb.rows import config_rows, offset_rows
from reput.store_format.state_table import CONFIG_ROWS, TOPICS_OF_STATE, StateTopic
from reput.udfs.backups import COPIED, CopySegments

Ends = Callable[[str, int], int | None]  # of a topic's queue the next position; None: not known


@dataclass
class Restored:
    """A restored store. Offsets are physical, times milliseconds, sizes bytes."""

    repository: str
    store: str
    output: str
    rocketmq: str
    run: int  # that has the log
    state_run: int  # that has config and offsets
    state_time: int
    log_start: int
    log_end: int
    messages: int = 0
    offsets: str = ""  # what was done to groups' offsets
    segments: list[OutputFile] = field(default_factory=list)
    derived: list[OutputFile] = field(default_factory=list)
    copied: list[str] = field(default_factory=list)
    waits: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)
    cleaned: list[str] = field(default_factory=list)
    discovered: dict[str, Any] = field(default_factory=dict)
    on_damage: str = REFUSE
    seconds: float = 0.0

    def manifest(self) -> dict[str, Any]:
        """The content of manifest.json: all fields but those that differ from run to run."""
        whole = {"format": RESTORED.format, **asdict(self)}
        del whole["seconds"], whole["output"], whole["cleaned"]
        return whole

    def as_json(self) -> dict[str, Any]:
        """Counts instead of the lists of files."""
        whole = asdict(self)
        return whole | {name: len(whole[name]) for name in ("segments", "derived")}

    def text(self) -> str:
        files = files_text(each.path for each in self.derived)
        lines = [
            f"restored {self.store} of {self.repository} -> {self.output} (RocketMQ "
            f"{self.rocketmq})",
            f"  log       {self.log_start:,} to {self.log_end:,} of run {self.run}, "
            f"{counted(self.messages, 'message')}",
            f"  state     {counted(len(self.copied), 'file')} of run {self.state_run}, "
            f"{time_text(self.state_time)}",
            f"  made      {counted(len(self.segments), 'segment')}, {files}, {self.seconds:.1f} s",
        ]
        lines += [f"  offsets   {self.offsets}"] if self.offsets else []
        lines += [f"  waits     {line}" for line in self.waits]
        lines += [f"  left out  {line}" for line in self.left_out]
        lines += [f"  warning   {line}" for line in self.warnings]
        lines += [f"  cleaned   {each}, left by a run that ended early" for each in self.cleaned]
        return "\n".join([*lines, f"  next      start a broker on {self.output}"])

    def details(self) -> list[str]:
        return found_lines(self.discovered)


def restore_store(
    found: FoundStore, wanted: Found, catalogue: Catalogue, place: Output, on_damage: str
) -> Restored:
    """Make the store, and put it in its place in one step. found: the moment's, as a store.

    Raises StoreError (also DamageFound), SettingError, OSError; a failed run leaves nothing there.
    """
    plan, moment = found.plan, wanted.moment
    kinds = kind_of_queues(plan, None, place.path), kind_of_index(plan, None, place.path)
    about = Restored(
        moment.repo, moment.store, place.path, plan.profile.release, moment.log, moment.state,
        wanted.state.ended, plan.segments[0].start, moment.end, on_damage=on_damage,
        discovered=plan.discovered.as_json(), warnings=[*plan.notes, *plan.warnings],
    )  # fmt: skip
    with found.publishing(place) as (job, about.cleaned):
        task = CopySegments(plan.storage, job.staging, tuple(plan.segments), moment.end)
        with job.stages.by_tasks("copied", moment.end - about.log_start, "bytes"):
            rows = job.ids(len(plan.segments)).run(task, COPIED).collect()
        made = Place(place.storage, begin_set(job.staging, place))
        made.storage.make_folders(f"{made}/{COMMIT_LOG}")
        moves = []
        for row in sorted(rows, key=lambda row: row["start"]):
            path = f"{COMMIT_LOG}/{segment_name(row['start'])}"
            moves.append((job.staging.path(row["name"]), f"{made}/{path}"))
            # no digest: each frame had its CRC-32, and records have their own
            about.segments.append(OutputFile(path, row["length"], "", 0, row["used"]))
        made.storage.move_all(moves)
        names = {name for name, _ in plan.folder.listed() if name != COMMIT_LOG}
        StateCopy(plan.storage, plan.store, made.storage, made.path, about).copy(names)
        if isinstance(made.storage, LocalStorage):
            for entry in wanted.state.state:
                if entry.path in about.copied:  # ACLs and broker.conf are not for everybody
                    os.chmod(f"{made}/{entry.path}", entry.mode)
        later = _later_topics(catalogue, wanted)
        expired = _expired(catalogue, wanted, about.log_start)
        # of delays and timers the log alone is asked: files may know what it does not have
        how = ToDerive(
            on_damage, queues=kinds[0], index=kinds[1], levels=True, expired=expired
        )  # fmt: skip
        with _synced(made, [each.path for each in about.segments]):
            built = derive_into(found, made, job.staging, REBUILD.asked(on_damage), how)
        about.derived, about.messages = built.files, built.messages
        about.waits, about.left_out = built.waits, [*built.left_out, *built.in_no_queue]
        written = {file.path for file in built.files}
        about.copied = [path for path in about.copied if path not in written]
        forgotten = _OF_STATE if wanted.state.end > moment.end else ()
        with OpenedStore(made, about.rocketmq, plan.discovered.settings, Notes()) as opened:
            _add_topics(made, later, opened.queues.topics(), about)
            _cut_offsets(made, opened.queues, about, forgotten)
        about.warnings += [
            line for each in built.warnings
            if (line := each.replace(made.path, plan.store)) not in about.warnings
        ]  # fmt: skip
        end_set(job.staging, about.manifest(), place)
    about.seconds = found.seconds()
    return about


@contextmanager
def _synced(made: Place, paths: Sequence[str]) -> Iterator[None]:
    """Write files on a local disk to it, while more is made of what the page cache has of them."""

    def sync(path: str) -> None:
        with closing(DiskFiles(made.path).open_read(path)) as file:
            file.sync()

    with ThreadPoolExecutor(1) as pool:
        synced = pool.map(sync, paths if isinstance(made.storage, LocalStorage) else ())
        yield
        list(synced)


def _expired(catalogue: Catalogue, wanted: Found, log_start: int) -> dict[Queue, LastEntry]:
    """The last entries of queues whose messages had left the log before it was backed up."""
    runs = (run for run, _ in catalogue.lineage(catalogue.run(wanted.moment.log)))
    rows = next((run.expired for run in runs if run.expired), ())
    found = {(str(topic), queue_id): LastEntry(*entry) for topic, queue_id, *entry in rows}
    return {queue: last for queue, last in found.items() if last.place < log_start}


# ---
# Topics that were made between the state's run and the moment.


def _later_topics(catalogue: Catalogue, wanted: Found) -> dict[str, Any]:
    """The topics of the next run's topics.json, by name."""
    lineage = list(catalogue.lineage(catalogue.run(wanted.moment.log)))[::-1]
    after = [run for run, _ in lineage if run.run > wanted.moment.state][:1]
    for entry in after[0].state if after else ():
        if entry.path == f"{CONFIG}/{TOPICS}":
            path = str(wanted.moment._replace(state=after[0].run))
            return _table(Place(storage_for(path), path), TOPICS)
    return {}


def _table(store: Place, name: str) -> dict[str, Any]:
    """The table of a file of config/; empty where there is none that can be read."""
    return _rows_of(_whole(store, name).get(CONFIG_ROWS[name].table))


def _whole(store: Place, name: str) -> dict[str, Any]:
    content = config.config_content(store, f"{CONFIG}/{name}", []) or b"{}"
    return _rows_of(json.loads(quoted_keys(content)))


def _add_topics(
    made: Place, later: Mapping[str, Any], there: Collection[str], about: Restored
) -> None:
    """Configure topics of which there are messages, and that the state does not have yet."""
    known = config.configured_topics(made, Notes()) or {}
    new = {
        name: about_it for name, about_it in later.items() if name in there and name not in known
    }
    if not new or f"{CONFIG}/{TOPICS}" not in about.copied:
        return
    whole, table = _whole(made, TOPICS), CONFIG_ROWS[TOPICS].table
    whole[table] = _rows_of(whole.get(table)) | new
    _replace(made, f"{CONFIG}/{TOPICS}", whole)
    about.warnings.append(
        f"{counted(len(new), 'topic')} made after run {about.state_run}, before the moment: "
        "configured as the next run has them"
    )


# ---
# Groups' offsets, which may be past the queues' ends where no run is before the moment, or where a
# log was cut back.

# Groups in which a broker keeps how far it has worked off topics of its own, such as half messages.
# Of a later run they would skip what waits at the moment; without them a broker looks at all again.
_OF_STATE = tuple(row for row in TOPICS_OF_STATE if row.group)


def _cut_offsets(
    made: Place, queues: Queues, about: Restored, forgotten: Sequence[StateTopic]
) -> None:
    @cache
    def end(topic: str, queue_id: int) -> int | None:
        batch = dict(queues.of(topic)).get(queue_id)
        if batch is None:
            return 0 if about.log_start == 0 else None
        with closing(queues.open(topic, queue_id, batch)) as queue:
            return queue.maximum()

    cut = 0
    for name in (OFFSETS, LMQ_OFFSETS):
        path = f"{CONFIG}/{name}"
        if path not in about.copied:
            continue
        try:
            whole = json.loads(quoted_keys(made.read(path)))
        except (ValueError, RecursionError):
            about.warnings.append(f"{path}: is not JSON, and is left as it is")
            continue
        gone, count = _without(whole, forgotten, about), cut_offsets(whole, end)
        cut += count
        if count or gone:
            _replace(made, path, whole)
    folder = config.config_in_rocksdb(made, OFFSETS)
    if folder is not None:
        with closing(open_database(folder)) as database:
            old = config_rows(database, OFFSETS)
            table = deepcopy(old)
            _without({"offsetTable": table}, forgotten, about)
            cut += cut_offsets({"offsetTable": table}, end)
            if table != old:
                _make_anew(made, database, old, table, about)
    if cut:
        about.offsets = f"{counted(cut, 'offset')} past the end of their queues: cut to it"


def _make_anew(
    made: Place, database: Database, old: Mapping[str, Any], new: Mapping[str, Any], about: Restored
) -> None:
    changed = [{name: {int(queue): at for queue, at in queues.items() if is_queue_id(queue)}
                for name, queues in table.items() if old[name] != new.get(name)}
               for table in (old, new)]  # fmt: skip
    before, after = (offset_rows(database, table) for table in changed)
    rows = {family: dict.fromkeys(keys) | after[family] for family, keys in before.items()}
    path = database.folder.removeprefix(f"{made}/")
    with scratch_folder(Scratch.ROCKSDB) as ours:
        os.mkdir(folder := f"{ours}/made")
        copy_changed(database, folder, rows)
        for each in [each for each in about.copied if each.startswith(f"{path}/")]:
            made.storage.remove(f"{made}/{each}")
            about.copied.remove(each)
        for name in sorted(os.listdir(folder)):
            put_as(made.storage, f"{made}/{path}/{name}", Path(f"{folder}/{name}").read_bytes())
            about.copied.append(f"{path}/{name}")


def _without(whole: Any, rows: Sequence[StateTopic], about: Restored) -> bool:
    """Leave out the offsets of these rows' groups; whether there were any."""
    table = _rows_of(_rows_of(whole).get("offsetTable"))
    gone = {key: _rows_of(table.pop(key)) for row in rows for key in list(table)
            if key.startswith(row.topic) and key.endswith(f"@{row.group}")}  # fmt: skip
    if any(any(at.values()) for key, at in gone.items() if key.startswith(REVIVE_TOPIC)):
        about.warnings.append(
            f"what was popped between the moment and run {about.state_run}, and not acknowledged, "
            "is not delivered again: groups' offsets are past it"
        )
    return bool(gone)


def cut_offsets(whole: Any, end: Ends) -> int:
    """Cut the offsets of a consumerOffset.json to the ends of their queues; how many were past."""
    offsets, light = (_rows_of(_rows_of(whole).get(name)) for name in ("offsetTable", config.LIGHT))
    found = [(queues, queue, key, int(queue)) for key, queues in offsets.items()
             for queue in _rows_of(queues) if is_queue_id(queue)]  # fmt: skip
    count = 0
    for table, name, key, queue_id in [*found, *((light, key, key, 0) for key in light)]:
        most, offset = end(key.partition("@")[0], queue_id), table[name]
        if most is not None and isinstance(offset, int) and offset > most:
            table[name], count = most, count + 1
    return count


def _rows_of(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _replace(made: Place, path: str, whole: Any) -> None:
    made.storage.remove(f"{made}/{path}")
    put_as(made.storage, f"{made}/{path}", json.dumps(whole).encode())
