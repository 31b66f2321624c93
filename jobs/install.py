"""`reput install`: put a rebuilt set in the place of a store's own, in one atomic step."""

import argparse
import os
import re
import tempfile
import uuid
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from reput.broker.change.compaction import settle
from reput.broker.change.install import (
    NOTE,
    SetFile,
    check_can_change,
    check_no_links,
    install,
    kept_name,
    may_be_apart,
    read_note,
    undo,
    used_entries,
)
from reput.jobs.console.options import DAMAGE, DONE, add_consent, consent, show
from reput.jobs.console.voice import add_output
from reput.jobs.in_place.install import (
    Target,
    converted_config,
    finish_first,
    local_path,
    locked,
    refuse_further_rows,
    services_from,
    to_convert,
)
from reput.jobs.opening.held import refuse_group_log
from reput.jobs.opening.plan import ROCKSDB, refuse_foreign_store
from reput.jobs.outputs import output
from reput.jobs.outputs.publish import Temporary, temporary_folder
from reput.jobs.outputs.report import files_text
from reput.store_format.derived.queues import FileQueues
from reput.store_format.discover.config import batch_topics
from reput.store_format.dispatch.scan import End, scan, scan_rules
from reput.store_format.faults import StoreChanged, StoreError
from reput.store_format.files.disk import DiskFiles, FixedFiles
from reput.store_format.files.folder import Folder, Place, read_part
from reput.store_format.files.local import LocalStorage
from reput.store_format.layouts import RECORD_HEAD
from reput.store_format.log.segments import Segment, Stretch, commit_log_folders, find_segments
from reput.store_format.log.there import derived_files, of_strangers, strangers
from reput.store_format.names import CHECKPOINT, CONSUME_QUEUE, CURRENT, MANIFEST, STORE_DB
from reput.store_format.notes import Notes
from reput.store_format.release.profiles import profile
from reput.store_format.release.settings import settings_from
from reput.store_format.rocksdb.queues import RocksDBQueues, queues_folder

# The fields of a manifest that a store's note keeps.
NOTED = frozenset(("store", "rocketmq", "settings", "log_start", "log_end", "inputs"))
_OFFSET_MAX = 2**63 - 1
_SAMPLED = 64  # queues, or files of queues, whose last entries are compared with the log
_SEGMENT = re.compile(r"(?:[^\0]*/)?\d{20}", re.ASCII)


@dataclass
class Installed:
    """What an install (or its undo) did, or would do."""

    store: str
    set: str
    kept: str  # the folder of the set that was replaced
    done: bool
    files: int = 0
    what = ""  # no field: the files, as text
    log_end: int = 0
    cleaned: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    kept_before: bool = False  # whether a set that an earlier install kept gives way
    becomes: list[str] = field(default_factory=list)  # texts on queues that will be of another kind
    waits: list[str] = field(default_factory=list)  # timers and delays: the set's files are taken
    compaction: list[str] = field(default_factory=list)  # what was written there, or cut off
    in_the_way: list[str] = field(default_factory=list)  # what to do before a broker starts

    def text(self) -> str:
        verb = "installed" if self.done else "would install"
        lines = [
            f"{verb} {self.set} in {self.store}: {self.what}, log up to {self.log_end:,}",
            f"  kept      {self.kept} (reput install --undo {self.store} puts it back)",
        ]
        if self.kept_before:
            verb = "is gone" if self.done else "goes"
            lines.append(f"  replaced  the set that an earlier install kept there, which {verb}")
        lines += [f"  becomes   {line}" for line in self.becomes]
        lines += [f"  waits     {line}" for line in self.waits]
        lines += [f"  compacted {line}" for line in self.compaction]
        lines += [
            f"  cleaned   {folder}, left by a run that ended early" for folder in self.cleaned
        ]
        lines += [f"  warning   {warning}" for warning in self.warnings]
        lines += [f"  next      {todo}" for todo in self.in_the_way]
        return "\n".join(lines)


def install_set(
    store: str, folder: str, dry_run: bool = False, confirm: Callable[[str], None] = lambda _: None
) -> Installed:
    """Install the set in `folder`. Raises StoreInUse, StoreChanged, StoreError, OSError.

    confirm: asked before anything is changed; raises StoreError to stop.
    """
    folder = local_path(folder)
    target = Target(store)
    local = LocalStorage()
    for path in (target.path, kept_name(target.path)):
        output.refuse_overlap(Place(local, path), [Place(local, folder)])
    manifest = read_manifest(folder)
    source = FixedFiles(folder)
    wanted = [
        SetFile(path, file["length"], file["sha256"], file.get("written"))
        for path, _, file in output.files_of(Folder(local, folder), manifest, output.REBUILT)
    ]
    there = {file.path.partition("/")[0] for file in wanted}
    if CHECKPOINT not in there or (manifest.get("messages") and len(there) == 1):
        raise StoreError(f"{folder}/{MANIFEST}: lists no whole set: nothing is installed")
    if lost := next((file.path for file in wanted if not source.exists(file.path)), None):
        raise StoreError(f"{folder}/{lost}: is missing, and {MANIFEST} lists it: rebuild again")
    hashes = {file.path: file.sha256 for file in wanted}
    services = services_from(target.path, manifest["log_end"], hashes)
    about = Installed(target.path, folder, kept_name(target.path), False, len(wanted))
    about.what, about.log_end = files_text(each.path for each in wanted), manifest["log_end"]
    about.kept_before = target.files.exists(kept_name(target.name))
    # what shows later whether the log is still the same
    note = {name: manifest[name] for name in sorted(NOTED)}
    refuse_foreign_store(Folder(LocalStorage(), target.path), even_rocksdb=True)
    refuse_group_log(target.path)
    in_rocksdb = manifest.get("queues_in") == ROCKSDB
    index_in_rocksdb = manifest.get("index_in") == ROCKSDB
    lmq = settings_from(as_text(note["settings"])).enable_lmq
    conversion = to_convert(target.path, in_rocksdb, lmq)
    about.becomes = _becomes(target.path, in_rocksdb) + conversion.lines
    about.waits = manifest.get("waits", []) if services else []
    if index_in_rocksdb:
        refuse_further_rows(target.path)
    with locked(target, dry_run):
        check_not_grown(target.path, note)
        _check_belongs(target.path, source, note, [file.path for file in wanted])
        about.cleaned, about.warnings = finish_first(target, dry_run)
        check_can_change(target.files, target.name)
        _name_strangers(about, note)
        inputs = [Place(local, folder), Place(local, target.path)]
        base = Place(local, tempfile.gettempdir())
        with temporary_folder(base, Temporary.CONFIG, inputs) as made:
            apart = converted_config(target.path, conversion, made.folder)
            more = (*services, *([STORE_DB] if index_in_rocksdb else []))
            apart = apart._replace(paths=(*apart.paths, *more))
            if not dry_run:
                gone = f", and remove {about.kept}" if about.kept_before else ""
                confirm(
                    f"put {len(wanted)} files of {folder} in the place of those of {target.path}"
                    f"{gone}"
                )
                install(
                    target.files, target.name, uuid.uuid4().hex, note, source, wanted,
                    manifest["log_start"], apart,
                )  # fmt: skip
                about.done = True
                _settle(target.path, note, about)
    return about


def _name_strangers(about: Installed, note: dict[str, Any]) -> None:
    """What others left in the store stays where it is, also where no broker starts with it."""
    store, rules = Folder(LocalStorage(), about.store), profile(note["rocketmq"])
    folders = commit_log_folders(about.store, settings_from(as_text(note["settings"])))
    found = strangers(store, folders)
    found += derived_files(store).strangers
    said, in_the_way = of_strangers(found, rules)
    about.warnings += [*said, *(f"{each.path}: {each.reason}" for each in in_the_way)]
    about.in_the_way = [each.todo for each in in_the_way]


def _settle(store: str, note: dict[str, Any], about: Installed) -> None:
    """Bring `compaction/` to the log: a broker with whole queues does not."""
    files, notes = DiskFiles.as_owned_by(os.lstat(store), store), Notes()
    given = as_text(note["settings"])
    done = settle(files, Folder(LocalStorage(), store), note["rocketmq"], given, notes)
    about.compaction = done.lines
    about.warnings += notes.lines


def undo_install(
    store: str, dry_run: bool = False, confirm: Callable[[str], None] = lambda _: None
) -> Installed:
    """Put back what the last install replaced. Raises as install_set does."""
    target = Target(store)
    about = Installed(target.path, kept_name(target.path), kept_name(target.path), False)
    with locked(target, dry_run):
        about.cleaned, about.warnings = finish_first(target, dry_run)
        check_can_change(target.files, target.name)
        note = read_note(target.files, f"{kept_name(target.name)}/{NOTE}")
        if note is None:
            raise StoreError(f"{about.kept}: there is no set that an install has replaced")
        wrong = wrong_in(note)
        if wrong:
            raise StoreError(f"{about.kept}/{NOTE}: is not a note of an install: {wrong}")
        check_no_links(target.files, kept_name(target.name))
        _name_strangers(about, note)
        check_not_grown(target.path, note)
        about.log_end = note["log_end"]
        kept = [os.path.relpath(f"{folder}/{name}", about.kept)
                for folder, _, names in os.walk(about.kept) for name in names
                if name != NOTE]  # fmt: skip
        about.files, about.what = len(kept), files_text(kept)
        if not dry_run:
            confirm(f"put {about.kept} back in the place of the files of {target.path}")
            undo(target.files, target.name, uuid.uuid4().hex, note)
            about.done = True
    return about


def read_manifest(folder: str) -> dict[str, Any]:
    """The manifest of a rebuilt set. Raises StoreError if there is none, or it is wrong."""
    path = f"{folder}/{MANIFEST}"
    try:
        raw = LocalStorage().read_bytes(path)
        for kind in (output.REPAIRED, output.CONVERTED, output.EXPORTED_STORE, output.RESTORED):
            if f'"{kind.format}"'.encode() in raw:
                raise StoreError(
                    f"{folder}: is {kind.what}, log and all: start a broker on it, in place of the "
                    f"old store; install takes a set that `reput rebuild` made"
                )
        manifest = output.parse_manifest(raw, path, output.REBUILT)
    except FileNotFoundError:
        raise StoreError(f"{path}: no such file: this is no set that reput has rebuilt") from None
    wrong = wrong_in(manifest)
    if wrong:
        raise StoreError(f"{path}: is not a manifest of a rebuild: {wrong}")
    return manifest


def wrong_in(noted: dict[str, Any]) -> str | None:
    """What is wrong with the fields of a manifest or a note; None if nothing is."""
    missing = sorted(NOTED - noted.keys())
    if missing:
        return f"it does not say {', '.join(missing)}"
    for name in ("store", "rocketmq"):
        if not isinstance(noted[name], str) or "\0" in noted[name]:
            return f"its {name} is not text"
    for name in ("log_start", "log_end"):
        if type(noted[name]) is not int or not 0 <= noted[name] <= _OFFSET_MAX:
            return f"its {name} is not an offset"
    settings, inputs = noted["settings"], noted["inputs"]
    if not isinstance(settings, dict) or not all(
        isinstance(value, (str, int, float)) for value in settings.values()
    ):
        return "its settings are none"
    apart = noted.get("apart", [])
    if not isinstance(apart, list) or not all(
        isinstance(path, str) and may_be_apart(path) for path in apart
    ):
        return "what it says that else was replaced is none of that"
    if not isinstance(inputs, list) or not all(_is_input(each) for each in inputs):
        return "its inputs are no segments"
    return None


def _is_input(entry: Any) -> bool:
    return (
        isinstance(entry, dict)
        and isinstance(entry.get("path"), str)
        and _SEGMENT.fullmatch(entry["path"]) is not None
        and type(entry.get("mtime_ns")) is int
    )


def check_not_grown(store: str, note: dict[str, Any]) -> None:
    """Raise StoreChanged if the log is not that of the rebuild, or has grown since."""
    storage, end = LocalStorage(), note["log_end"]
    segments = _segments(store, note)
    inputs = {int(os.path.basename(f["path"])): f for f in note["inputs"]}
    for segment in segments:
        known = inputs.get(segment.start)
        same_file = known is not None and os.path.abspath(known["path"]) == segment.path
        if known and same_file and segment.end <= end and known["mtime_ns"] != segment.state.mtime:
            raise StoreChanged(f"{segment.path}: was changed since the rebuild; rebuild again")
        if segment.end <= end:
            continue
        at = max(end, segment.start)
        if _record_at(storage, segment, at, note):
            raise StoreChanged(
                f"{segment.path}: the log has grown since the rebuild: a record stands at {at}, "
                f"where it ended; rebuild again"
            )
    if segments[-1].end < end:
        raise StoreChanged(
            f"{segments[-1].path}: the log ends before {end}, its end at the rebuild"
        )


def _segments(store: str, note: dict[str, Any]) -> list[Segment]:
    settings = settings_from(as_text(note["settings"]))
    folders = commit_log_folders(store, settings)
    return find_segments(LocalStorage(), folders, settings.mapped_file_size_commit_log)


def as_text(settings: dict[str, Any]) -> dict[str, str]:
    """Settings as a broker's properties file has them."""
    return {n: str(v).lower() if isinstance(v, bool) else str(v) for n, v in settings.items()}


def _record_at(storage: LocalStorage, segment: Segment, at: int, note: dict[str, Any]) -> bool:
    batch = batch_topics(Folder(storage, note["store"]), Notes())
    rules = scan_rules(profile(note["rocketmq"]), settings_from(as_text(note["settings"])), batch)
    # a stretch of one byte: no more than the first record is read
    stretch = Stretch(segment.start, segment.end, at, at + 1, at)
    with closing(storage.open(segment.path)) as reader:
        parts = scan(segment.read_by(reader), stretch, rules)
        return any(part.records > 0 for part in parts if isinstance(part, End))


def _check_belongs(
    store: str, source: DiskFiles, note: dict[str, Any], paths: list[str]
) -> None:  # fmt: skip
    """Raise StoreError if an entry of the set's queues points to no record of this log."""
    storage, segments = LocalStorage(), _segments(store, note)
    for path, at, size in _last_entries(source, paths):
        for segment in segments:
            if segment.start <= at < segment.end:
                head = read_part(storage, segment.path, at - segment.start, RECORD_HEAD.itemsize)
                record = np.frombuffer(head, RECORD_HEAD)[0]
                if (int(record["physicalOffset"]), int(record["totalSize"])) != (at, size):
                    raise StoreError(
                        f"{path}: its last entry points to {at}, where this store "
                        f"has no such record: it is a set of another store"
                    )


def _last_entries(source: DiskFiles, paths: list[str]) -> Iterator[tuple[str, int, int]]:
    """(path, physicalOffset, size) of the last entry of some queues, or of some of their files."""
    if f"{CONSUME_QUEUE}/{CURRENT}" in paths:
        with closing(
            RocksDBQueues(source.root, Folder(LocalStorage(), f"{source.root}/{CONSUME_QUEUE}"))
        ) as queues:
            names = sorted(queues.maxima)
            for topic, queue_id in names[:: max(len(names) // _SAMPLED, 1)]:
                queue = queues.open(topic, queue_id, False)
                last = queue.last()
                if last is not None:
                    yield queue.folder, last.physical_offset, last.size
        return
    sample = [path for path in paths if path.startswith(f"{CONSUME_QUEUE}/")]
    for path in sample[:: max(len(sample) // _SAMPLED, 1)]:
        used = used_entries(source, path)
        if len(used):
            at, size = int(used[-1]["physicalOffset"]), int(used[-1]["size"])
            yield f"{source.root}/{path}", at, size


def _becomes(store: str, in_rocksdb: bool) -> list[str]:
    """A line for people if the set's queues are of another kind than the store's."""
    at = Folder(LocalStorage(), store)
    folder, files = queues_folder(at), FileQueues(at, lambda batch: 0).topics()
    if in_rocksdb:
        if not files:
            return []
        return [
            f"queues in files give way to a RocksDB, {store}/{CONSUME_QUEUE}: a broker reads it "
            f"with storeType=defaultRocksDB alone (docs/rocksdb.md)"
        ]
    if folder is None:
        return []
    return [
        f"the RocksDB {folder} gives way to files: a broker reads these without "
        f"storeType=defaultRocksDB alone (docs/rocksdb.md)"
    ]


# --- the command ---------------------------------------------------------------------------


_HELP = """\
examples:
  reput install /data/rebuilt /data/store
  reput install --undo /data/store
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = _HELP
    parser.add_argument(
        "paths", nargs="+", metavar="DIR STORE", help="a rebuilt set, and the store (--undo: STORE)"
    )
    parser.add_argument("--undo", action="store_true", help="put back what was replaced")
    add_consent(parser)
    add_output(parser)


def run(arguments: argparse.Namespace) -> int:
    """Install or undo, and say what was done. Raises as install_set does.

    Returns 1 where a broker does not start on what others left in the store, and of --dry-run.
    """
    wanted = 1 if arguments.undo else 2
    if len(arguments.paths) != wanted:
        raise StoreError("reput install DIR STORE, or reput install --undo STORE")
    ask = consent(arguments.yes)
    if arguments.undo:
        about = undo_install(arguments.paths[0], arguments.dry_run, ask)
    else:
        folder, store = arguments.paths
        about = install_set(store, folder, arguments.dry_run, ask)
    show(arguments, asdict(about), about.text(), good=not about.in_the_way)
    return DAMAGE if about.in_the_way or not about.done else DONE
