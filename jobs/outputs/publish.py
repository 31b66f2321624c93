"""A job's staging folder, and publishing: files get their names, the whole set its place."""

import re
from collections.abc import Container, Iterable, Iterator, Sequence
from contextlib import contextmanager
from enum import StrEnum
from typing import Any, NamedTuple

import pyarrow as pa

from reput.jobs.engines.engine import Engine
from reput.jobs.outputs.output import Output, manifest_text, refuse_overlap
from reput.jobs.outputs.report import OutputFile, Shard, Summary, counted
from reput.store_format.derived.index_names import NameZone
from reput.store_format.derived.queue_files import decode_entries, is_message, is_pre_blank
from reput.store_format.files.disk import NotDurable
from reput.store_format.files.folder import Place, read_part
from reput.store_format.files.manifest_last import ManifestLast
from reput.store_format.files.protocol import Storage
from reput.store_format.layouts import QUEUE_ENTRY_BYTES
from reput.store_format.names import (
    CHECKPOINT,
    INDEX,
    LAST_INDEX_TIME,
    LMQ_PREFIX,
    MANIFEST,
    index_name,
    next_index_time,
    parse_index_name,
)
from reput.udfs.rebuild import built_files
from reput.udfs.staging import PLACED_TREE, Staging, attempt_name

Built = dict[str, Any]  # one BUILT row, see reput.udfs.staging

_SET = "set"
_UNNAMED_SHOWN = 20
_MOVES_OF_A_TASK = 1000


def name_files(
    built: Iterable[Built], queue_bytes: Any, start_name: str | None, zone: NameZone
) -> list[Built]:
    """The BUILT rows in the order of folder and number, each with its `path` below the output.

    queue_bytes: folder -> bytes of a file of that queue. Index files are named by the store time
    of their first message, in `zone`, or upward from `start_name`; names are unique and ascend.
    Files that cannot be named (see `unnamed`) are left out.
    """
    whole = (row for row in built if row["name"])
    rows = sorted(whole, key=lambda row: (row["folder"], row["number"]))
    begins = [zone.local(row["begin"]) for row in rows if row["folder"] == INDEX]
    index_names = iter(_index_names(begins, start_name))
    named = []
    for row in rows:
        if row["folder"] == INDEX:
            named.append({**row, "path": f"{INDEX}/{next(index_names)}"})
        else:
            named.append({**row, "path": built_files.queue_path(row, queue_bytes)})
    return named


def unnamed(built: Iterable[Built], queue_bytes: Any) -> list[str]:
    """A line for each queue file that is not written, as its name would be negative."""
    rows = sorted(
        (row for row in built if not row["name"]), key=lambda row: (row["folder"], row["number"])
    )
    lines = [
        f"{row['folder']}: {row['entries']:,} entries of a file at "
        f"{row['number'] * queue_bytes(row['folder'])}, which no file's name can say: the "
        "queue's first queueOffset is negative, or too large"
        for row in rows[:_UNNAMED_SHOWN]
    ]
    return lines + (
        [f"... and {len(rows) - len(lines):,} more such files"] if len(rows) > len(lines) else []
    )


class OfQueues(NamedTuple):
    """What queues lack of the log, or hold at another position, in lines.

    left_out: messages in no queue, or at wrong positions as a topic was made again. shifted: gaps.
    ended: messages of a topic's earlier lives, which are in no queue.
    """

    left_out: Sequence[str] = ()
    shifted: Sequence[str] = ()
    ended: Sequence[str] = ()


def earlier_life(folder: str, messages: int) -> str:
    """What is said of a queue's messages of an earlier life."""
    return (
        f"{folder}: {counted(messages, 'message')} of the log, sent before the topic was deleted "
        "and made again: in no queue"
    )


def of_queues(
    staging: Staging, named: Sequence[Built], queue_bytes: Any, only: Container[str] | None = None
) -> OfQueues:
    """What is to be said of the queues among named BUILT rows; of each kind at most 20 lines.

    only: paths of the files that count; None: all.
    """
    odd_rows = (row for row in named if row["skipped"] or row["ended"] or row["odd"])
    rows = [row for row in odd_rows if only is None or row["path"] in only]
    found: tuple[list[str], list[str], list[str]] = [], [], []
    left_out, shifted, ended = found
    for row in rows:
        folder, odd = row["folder"], row["odd"]
        if row["ended"]:
            ended.append(earlier_life(folder, row["ended"]))
        shift = told = 0
        begun = {p for offset, p in zip(odd[::3], odd[1::3], strict=True) if not offset}
        unnumbered = {p for p in begun if begun & {p - 1, p + 1}}
        if unnumbered:
            shifted.append(
                f"{folder}: records have queueOffset 0 one after the other, as a broker with "
                "duplicationEnable leaves it: their order numbers them"
            )
        for offset, position, place in zip(odd[::3], odd[1::3], odd[2::3], strict=True):
            told += position < 0
            record = f"{folder}: the record at physical offset {place}"
            if position < 0:
                taken = ""
                if len(left_out) < _UNNAMED_SHOWN:
                    taken = _taken(staging, named, row, offset, queue_bytes)
                left_out.append(
                    f"{record} is in no queue (so does RocketMQ): its queueOffset {offset} is "
                    f"below the next position{taken}"
                )
            elif position in unnumbered:
                continue
            elif offset == 0 and f"/{LMQ_PREFIX}" not in folder:  # no LMQ is made
                left_out.append(
                    f"{record} has queueOffset 0 and comes to position {position}: the topic was "
                    "deleted and made again, and no queue file shows its last life; so RocketMQ "
                    "would derive it from the log alone (--remade last: from that record on)"
                )
            else:
                what = f"{offset - position - shift} are missing before it"
                shifted.append(
                    f"{record}, of queueOffset {offset}, is at position {position}"
                    + (f": {what}" if offset - position > shift else "")
                )
            shift = shift if position < 0 else offset - position
        if row["skipped"] > told:
            left_out.append(
                f"{folder}: leaves out {counted(row['skipped'] - told, 'more message')}, for a "
                "queueOffset below its next position (so does RocketMQ)"
            )
    return OfQueues(*(few(lines, len(lines)) for lines in found))


def _taken(
    staging: Staging, named: Iterable[Built], row: Built, offset: int, queue_bytes: Any
) -> str:
    """The record that has a queue's position, as a text; '' if it is not of these files."""
    a_file = queue_bytes(row["folder"]) // QUEUE_ENTRY_BYTES
    for each in named:
        if each["folder"] == row["folder"] and each["number"] == offset // a_file and offset >= 0:
            at = offset % a_file * QUEUE_ENTRY_BYTES
            raw = read_part(staging.storage, staging.path(each["name"]), at, QUEUE_ENTRY_BYTES)
            entry = decode_entries(raw)[0]
            if is_message(entry) and not is_pre_blank(entry):
                return f"; the record at {entry['physicalOffset']} is at that position"
    return ""


def few(lines: list[str], count: int) -> list[str]:
    """The first 20 lines at most, and how many more of `count` there are."""
    more = count - len(lines[:_UNNAMED_SHOWN])
    return [*lines[:_UNNAMED_SHOWN], f"... and {more:,} more"] if more > 0 else lines


def _index_names(begins: Sequence[int], start_name: str | None) -> list[str]:
    """Names of index files by local begin times: any numbers, as clocks may be wrong."""
    times: list[int] = []
    for begin in begins:
        if start_name is not None:
            begin = times[-1] + 1 if times else parse_index_name(start_name)
        times.append(next_index_time(begin, times[-1] if times else None))
    # A name near LAST_INDEX_TIME must leave later times for the files after it.
    for after, place in enumerate(reversed(range(len(times)))):
        times[place] = min(times[place], LAST_INDEX_TIME - after)
    return [index_name(time) for time in times]


def publish(
    staging: Staging, built: list[Built], checkpoint: bytes, summary: Summary, output: Output,
    engine: Engine | None = None, kept: built_files.KeptFiles | None = None,
) -> None:  # fmt: skip
    """Move the accepted files into one folder, add the checkpoint, and publish it. engine: whose
    tasks move them, where there are many on S3. kept: more files, which the manifest lists in
    shards.
    """
    target = begin_set(staging, output)
    if kept is not None:
        summary.shards = [Shard(**row) for row in publish_kept(kept, target, engine)]
    summary.files = put_derived(staging, built, checkpoint, target, engine)
    end_set(staging, summary.manifest(), output)


def put_derived(
    staging: Staging, built: list[Built], checkpoint: bytes, target: str,
    engine: Engine | None = None,
) -> list[OutputFile]:  # fmt: skip
    """Move the accepted files into a set's folder, and add the checkpoint."""
    move_in(staging, [(row["name"], row["path"]) for row in built], target, engine)
    columns = ("path", "length", "sha256", "entries", "used")
    files = [OutputFile(*(row[name] for name in columns)) for row in built]
    return [*files, _write(staging.storage, target, CHECKPOINT, checkpoint)]


def publish_kept(
    kept: built_files.KeptFiles, target: str, engine: Engine | None
) -> list[dict[str, Any]]:
    """Move files that the driver has no rows of into a set's folder. SHARD rows, by path."""
    shards, task = kept.shards(), built_files.PublishFiles(kept.staging, target, kept.queue_bytes)
    if engine is not None and getattr(kept.staging.storage, "moves_by_copies", False):
        rows = engine.table(shards, max(shards.num_rows, 1)).run(task, built_files.SHARD).collect()
    else:  # a rename cannot be repeated, as a task may be
        rows = [row for some in task(iter(shards.to_batches(1))) for row in some.to_pylist()]
    return sorted(rows, key=lambda row: row["path"])


def begin_set(staging: Staging, output: Output) -> str:
    """Begin the set that takes the output's place; returns the path of the folder for its files."""
    return output.storage.begin_set(staging.path(_SET), output.path, output.may_go)


def move_in(
    staging: Staging, files: list[tuple[str, str]], target: str, engine: Engine | None = None
) -> None:
    """Move files (name in staging, path in the set) into a set's folder.

    Files that were made at their paths (`Storage.place`) move with their folders. If two
    attempts at a task made a file, that of the other attempt then takes its place.
    """
    storage = staging.storage
    tree = staging.path(PLACED_TREE)
    placed = {name for name, path in files if name == f"{PLACED_TREE}/{path}"}
    tops = dict.fromkeys(name.split("/")[1] for name in placed)
    storage.move_all((f"{tree}/{top}", f"{target}/{top}") for top in tops)
    moved = [(name, path) for name, path in files if name not in placed]
    by_tasks = storage.moves_by_copies and len(moved) > _MOVES_OF_A_TASK
    if engine is not None and by_tasks and not engine.one_machine:
        names, paths = zip(*moved, strict=True)
        table = pa.Table.from_arrays([pa.array(names), pa.array(paths)], schema=built_files.MOVE)
        rows = engine.table(table, -(-len(moved) // _MOVES_OF_A_TASK))
        rows.run(built_files.MoveFiles(staging, target), built_files.MOVED).collect()
        return
    for below in dict.fromkeys(path.rpartition("/")[0] for _, path in moved):
        if below:
            storage.make_folders(f"{target}/{below}")
    storage.move_all((staging.path(name), f"{target}/{path}") for name, path in moved)
    # Other files in staging are removed first, else they would be made durable with the set.
    if not isinstance(storage, ManifestLast):
        for listed in storage.list(staging.folder):
            if listed.state is not None:
                storage.remove(staging.path(listed.name))


def end_set(staging: Staging, manifest: dict[str, Any], output: Output) -> None:
    """Add the manifest, and put the folder in its place at once."""
    text = manifest_text(manifest)
    output.storage.publish(staging.path(_SET), output.path, output.may_go, (MANIFEST, text))


def _write(storage: Storage, folder: str, name: str, content: bytes) -> OutputFile:
    output = storage.create(f"{folder}/{name}", digest=True)
    output.write(content)
    written = output.finish(len(content))
    return OutputFile(name, written.length, written.sha256, 0, written.used)


# ---
# A job's staging folder, and the leftovers of jobs that ended early.
#
# A job holds its folder (`Storage.claim`) as long as it lives, however it ends. A folder
# that nobody holds is a leftover, which the next job for the same output removes.

_ATTEMPT = r"-[0-9a-f]{32}(\.gone)?"


class Temporary(StrEnum):
    """The names' beginnings of commands' staging folders in the temporary folder."""

    CATCH_UP = "reput-catch-up"
    CHECK = "reput-check"
    COMPARE = "reput-compare"
    CONFIG = "reput-config"  # of an install: a config that becomes one in files, or in RocksDB
    CONVERT = "reput-convert-"
    EXPORT = "reput-export-"
    EXPORT_STORE = "reput-export-store-"
    JUDGED = "reput-judged"
    RECOVER = "reput-recover"
    SERVE = "reput-serve"
    VERIFY = "reput-verify"


@contextmanager
def staging_folder(parent: Place, prefix: str) -> Iterator[Staging]:
    """Yield a new staging folder, which is removed afterwards.

    After NotDurable it stays, as it may hold the old set while the new set may not last.
    """
    folder, release = f"{parent}/{attempt_name(prefix)}", None
    try:  # a signal may end the claim when the folder is there already
        while (release := parent.storage.claim(folder)) is None:
            folder = f"{parent}/{attempt_name(prefix)}"
        yield Staging(parent.storage, folder)
    except NotDurable:
        raise
    except BaseException:
        parent.storage.remove_tree(folder)
        raise
    else:
        parent.storage.remove_tree(folder)
    finally:
        if release is not None:
            release()


def beside(output: Place) -> tuple[Place, str]:
    """(folder, prefix of names in it) for staging beside an output, on the same file system.

    It is beside the first missing folder on the path to the output, as missing folders are only
    made when a set is published.
    """
    parent, _, name = output.path.rpartition("/")
    while parent and not output.storage.has_folder(parent):
        parent, _, name = parent.rpartition("/")
    return Place(output.storage, parent), _prefix(name)


def places(output: Place) -> list[tuple[Place, str]]:
    """(folder, prefix of names in it) of each place where jobs for this output may have staged.

    The first place is where a job would stage now. The others are beside the folders above the
    output: jobs staged there while these folders were missing (see `beside`).
    """
    found = [beside(output)]
    if isinstance(output.storage, ManifestLast):
        return found  # folders in other places may be those of other outputs
    folder, _, name = output.path.rpartition("/")
    while name:
        place = Place(output.storage, folder), _prefix(name)
        if place != found[0]:
            found.append(place)
        folder, _, name = folder.rpartition("/")
    return found


def leftovers(output: Place) -> list[str]:
    found = []
    for number, (folder, prefix) in enumerate(places(output)):
        wanted = (True,) if number else (True, None)
        found += [path for path, gone in staged(folder, prefix) if gone in wanted]
    return found


def remove_leftovers(output: Place, inputs: Iterable[Place] = ()) -> list[str]:
    """Remove leftovers; returns their paths. Raises OverlapsInput if a leftover holds an input."""
    removed = leftovers(output)
    for folder in removed:
        refuse_overlap(Place(output.storage, folder), inputs)
    for folder in removed:
        output.storage.remove_tree(folder)
    return removed


@contextmanager
def temporary_folder(base: Place, prefix: Temporary, inputs: Iterable[Place]) -> Iterator[Staging]:
    """A `staging_folder` in a folder of temporary files; leftovers of killed jobs are removed.

    Raises OverlapsInput if it would lie inside an input.
    """
    base = Place(base.storage, base.storage.resolve(base.path))
    refuse_overlap(Place(base.storage, f"{base}/{prefix}"), inputs)
    remove_abandoned(base, prefix)
    with staging_folder(base, prefix) as staging:
        yield staging


def remove_abandoned(folder: Place, prefix: str) -> None:
    """Remove the staging folders with a prefix in a folder whose jobs are known to be gone."""
    for path, gone in staged(folder, prefix):
        if gone:
            folder.storage.remove_tree(path)


def _prefix(name: str) -> str:
    return f".{name}.reput"


def staged(parent: Place, prefix: str) -> list[tuple[str, bool | None]]:
    """(staging folder with the prefix, whether its job is gone; None: unknown)."""
    pattern = re.compile(re.escape(prefix) + _ATTEMPT)
    try:
        names = sorted(parent.storage.names(parent.path or "/"))
    except OSError:
        return []
    folders = [f"{parent}/{name}" for name in names if pattern.fullmatch(name)]
    return [(folder, parent.storage.is_abandoned(folder)) for folder in folders]
