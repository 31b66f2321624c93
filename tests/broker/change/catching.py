"""Catch-ups of stores in memory, and what must hold of every state that a kill may leave."""

from typing import Any

from reput.broker.change.catch_up import NOTE, CatchUp, read_note
from reput.broker.change.new_messages import New, Rules, find_new
from reput.broker.change.position import DispatchedLog as LogPlace
from reput.broker.change.position import find_position
from reput.broker.writer.recovery import LogRecovery
from reput.store_format.dispatch.scan import place_rules, scan_rules
from reput.store_format.files.folder import Folder
from reput.store_format.log.reader import LogBytes
from reput.store_format.names import ABORT, COMMIT_LOG, segment_name
from reput.store_format.release.profiles import profile
from reput.store_format.release.settings import settings_from
from tests.faults.files_storage import Rooted
from tests.faults.memory_files import MemoryFiles
from tests.in_process import as_text
from tests.logs import Log
from tests.reference import Derivation


def rules_of(log: Log) -> Rules:
    rules = profile(log.version)
    settings = settings_from(as_text(log.settings), release=rules.release)
    batch = [n for n, about in log.topic_attributes.items() if about.get("queue.type") == "BatchCQ"]
    return Rules(rules, settings, scan_rules(rules, settings, batch), place_rules(rules))


def shorter(log: Log, end: int) -> Log:
    """The log as it was when it ended at `end`."""
    size = log.settings["mappedFileSizeCommitLog"]
    segments = {
        start: bytes(data[: max(end - start, 0)]).ljust(size, b"\0") for start,
        data in log.segments.items() if start < end or start == min(log.segments)}  # fmt: skip
    return log._replace(segments=segments)


def put_log(files: MemoryFiles, log: Log) -> None:
    """Let the files have this log; all else stays."""
    if COMMIT_LOG not in files.folders:
        files.make_folder(COMMIT_LOG)
    for start, data in log.segments.items():
        path = f"{COMMIT_LOG}/{segment_name(start)}"
        file = files.open(path) if path in files.names_of else files.create(path)
        file.write_at(0, data)
        file.sync()
    files.sync_folder(COMMIT_LOG)
    files.ops.clear()


def catch_up(files: MemoryFiles, log: Log, now: int = 1_800_000_000_000) -> New:
    """What `reput catch-up` does to a store that it holds; also after a kill."""
    rules = rules_of(log)
    size = rules.settings.mapped_file_size_commit_log
    recovery = LogRecovery(files, size, rules.scan, None)
    start, stop = recovery.segments[0], recovery.segments[-1] + size
    source = LogBytes(files, size)
    place = LogPlace(source.read, start, stop, size)
    catching = CatchUp(files, place, recovery, rules, lambda: now)
    crashed = files.exists(ABORT)
    if crashed:
        note = read_note(files)
        assert note is not None, "a killed catch-up left no note"
        assert catching.is_of(note), "a killed catch-up is not known again"
        position = catching.noted(note)
    else:
        position = find_position(Folder(Rooted(files), ""), place, rules.settings, rules.scan)
    new = find_new(place, recovery, position, rules)
    if crashed:
        catching.resume(new)
    elif not new.ahead.nothing_new:
        catching.apply(new)
    elif files.exists(NOTE):
        catching.settle()
    catching.close()
    return new


def derived(files: MemoryFiles) -> dict[str, bytes]:
    """Queue and index files; those of the index by their order."""
    found, number = {}, 0
    for path, content in sorted(files.tree().items()):
        if path.startswith("index/"):
            found[f"index/{number}"] = content
            number += 1
        elif path.startswith(("consumequeue/", "batchconsumequeue/")):
            found[path] = content
    return found


def difference(files: MemoryFiles, wanted: Derivation) -> str | None:
    """The first file that is not what the reference says, byte for byte; None where all are."""
    there = derived(files)
    for name in sorted(there.keys() | wanted.files.keys()):
        if name not in there or name not in wanted.files:
            return f"{name}: {'missing' if name in wanted.files else 'should not be there'}"
        content, length = wanted.files[name]
        if there[name] != content.ljust(length, b"\0"):
            return f"{name}: {there[name].hex()}, should be {content.hex()} in {length} bytes"
    return None


def left_behind(files: MemoryFiles) -> list[Any]:
    """What only a catch-up under way may have in a store."""
    known = (COMMIT_LOG, "consumequeue", "batchconsumequeue", "index", "checkpoint", "config")
    return [path for path in files.names_of if path.split("/")[0] not in known]
