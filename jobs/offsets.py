"""`reput offsets dump|set|clone|map STORE`: where consumer groups go on."""

import argparse
import hashlib
import json
import sys
from collections.abc import Sequence
from dataclasses import KW_ONLY, asdict, dataclass, field
from typing import TYPE_CHECKING

from reput.jobs.console import options
from reput.jobs.console.declared import InPlace, option, timed
from reput.jobs.console.voice import remark, safe
from reput.jobs.engines.choice import alone
from reput.store_format.faults import StoreChanged, StoreError
from reput.store_format.files.by_url import storage_for
from reput.store_format.files.folder import Folder
from reput.store_format.names import ABORT, CONFIG
from reput.store_format.notes import Notes
from reput.store_format.release.profiles import RELEASES
from reput.store_format.release.settings import SettingError

if TYPE_CHECKING:
    from reput.jobs.opening.held import HeldStore
    from reput.store_format.discover.config import LiveOffsets
    from reput.store_format.query.inventory import QueueRow
    from reput.store_format.query.offsets import Move, OffsetRow

_SHOWN = 20
# What each action takes besides groups, topics and queues; first what it must have one of.
_TAKES: dict[str, tuple[str, ...]] = {
    "dump": (), "set": ("--to-time", "--to-offset", "--to-end", "--from-dump", "--as-of-trace"),
    "clone": ("--to-group",), "map": ("--map", "--from-dump"), "undo": ("--undo",),
}  # fmt: skip
_EPILOG = """\
dump prints a line of JSON for each offset: group, topic, queue, offset. set moves those of the
chosen groups, topics and queues (all but the broker's own); clone gives a group's offsets to
another; map takes them to where their messages are in another log, by lines of JSON: topic, queue,
old, new. No offset gets past its queue's end, or before its first message. The store must be
stopped; the file or RocksDB that its broker reads is replaced in one step, and the old one kept in
STORE/reput-offsets.

Exit codes: 0 done, or nothing to do; 1 --dry-run found something, or an offset was past its queue's
end or of a queue that the store does not have; 2 nobody said yes, or wrong usage.

examples:
  reput offsets dump /data/store --group billing
  reput offsets set /data/store --group billing --topic Orders --to-time '2h ago' --dry-run
  reput offsets clone /data/store --group billing --to-group billing-2 --yes
  reput offsets set /data/store --undo

"""


@dataclass(frozen=True)
class OfOffsets(InPlace):
    """What `reput offsets` is asked. action: dump, set, clone or map."""

    _: KW_ONLY
    action: str = "dump"
    groups: Sequence[str] = option("only this group; may be repeated", (), "--group", metavar="G")
    topics: Sequence[str] = option("only this topic; may be repeated", (), "--topic", metavar="T")
    queues: Sequence[int] = option(
        "only the queue with this id; may be repeated",
        (),
        "--queue",
        metavar="ID",
        type=options.number,
    )
    to_time: int | None = timed(
        f"set: the first message stored then or later: {options.TIME_FORMS}",
        type=options.milliseconds,
    )
    to_offset: int | None = option("set: this position", metavar="N", type=options.number)
    to_end: bool = option("set: the end of each queue", False)
    from_dump: str | None = option(
        "set: the offsets in a dump; map: map these, not the store's", metavar="FILE"
    )
    as_of_trace: int | None = timed(
        "set: after the last message that was consumed by then, as clients' traces tell",
        type=options.milliseconds,
    )
    to_group: str | None = option("clone: the group that gets the offsets", metavar="G")
    map: str | None = option("map: the offset map", metavar="FILE")
    undo: bool = option("put back what the last change replaced", False)


@dataclass
class OffsetsReport:
    """What was moved, or would be; of a dump its rows."""

    store: str
    action: str
    live: str = ""  # the file or RocksDB that a broker reads
    rows: list["OffsetRow"] = field(default_factory=list)
    moves: list["Move"] = field(default_factory=list)  # to -1 where there is no such queue
    unmapped: int = 0  # offsets of queues that the map or the traces lack, which stay
    notes: list[str] = field(default_factory=list)
    lacking: bool = False
    done: bool = False
    kept: str = ""  # the folder with what was replaced
    left: int = 0  # how many offsets were past their queue's end, or of no queue

    def text(self) -> str:
        many, verb = len(self.moves), "moved" if self.done else "would move"
        what = f"{verb} {many:,} offset{'s' * (many > 1)} in " if many else "nothing to move: "
        lines = [f"{what}{self.store}/{self.live}"]
        lines += [f"  {safe(str(move))}" for move in self.moves[:_SHOWN]]
        if many > _SHOWN:
            lines.append(f"  ... and {many - _SHOWN:,} more: --json has all")
        if self.unmapped:
            lines.append(
                f"  stay      {self.unmapped:,} offsets that the map or the traces do not name"
            )
        if self.kept:
            lines.append(f"  kept      {self.kept} (--undo puts it back)")
        return "\n".join([*lines, *(f"  note      {note}" for note in self.notes)])


@alone(OfOffsets)
def offsets(asked: OfOffsets) -> OffsetsReport:
    """Dump the offsets of consumer groups, or move them in a local store that nobody has open.

    action: dump (the store may be in use, and at a URL), set, clone or map. One of to_time
    and as_of_trace (milliseconds), to_offset, to_end and from_dump says where `set` moves them.
    Raises StoreError (StoreInUse), SettingError, UnknownRelease, OSError.
    """
    from reput.jobs.in_place.install import refuse_open_databases
    from reput.jobs.opening.held import held_local_store
    from reput.store_format.query.offsets import Chosen, rows_of

    request = _request(asked)
    if asked.action == "dump":
        storage, notes = storage_for(asked.store), Notes()
        folder = Folder(storage, storage.resolve(asked.store))
        live = _live(folder, asked, notes)
        rows = rows_of(live.offsets, Chosen(asked.groups, asked.topics, asked.queues))
        return OffsetsReport(folder.path, "dump", f"{CONFIG}/{live.name}", rows,
                             notes=notes.lines, lacking=notes.lacking)  # fmt: skip
    with held_local_store(asked.store, asked.dry_run, "; only a local store is changed") as held:
        refuse_open_databases(held.path)
        if held.crashed:
            raise StoreError(
                f"{held.path}/{ABORT}: the store was not stopped cleanly; use `reput recover` first"
            )
        live = _live(held.folder, asked)
        report = OffsetsReport(held.path, asked.action, f"{CONFIG}/{live.name}")
        if asked.undo:
            _undo(held, asked, live, report)
        else:
            _move(held, asked, live, report, request)
        return report


def _move(
    held: "HeldStore", asked: OfOffsets, live: "LiveOffsets", report: OffsetsReport, request: str
) -> None:
    from reput.broker.services.offsets import KEPT, kept_note, replace_offsets
    from reput.store_format.query.offsets import digest_of, with_moves

    note = kept_note(held.files)
    if note is not None and note[1:] == (request, digest_of(live.offsets)):
        report.notes.append("the same change was made before, and no offset has moved since")
        return
    _plan(held, asked, live, report)
    if not (moved := sum(move.offset >= 0 for move in report.moves)) or held.dry_run:
        return
    left = f" ({report.left:,} of them not where they were to be)" if report.left else ""
    _ask(held, asked, live, f"move {moved:,} offset{'s' * (moved > 1)} in {report.live}{left}")
    replace_offsets(held.files, live, with_moves(live.offsets, report.moves), request)
    report.done, report.kept = True, f"{held.path}/{KEPT}"


def _undo(held: "HeldStore", asked: OfOffsets, live: "LiveOffsets", report: OffsetsReport) -> None:
    from reput.broker.services.offsets import forget, kept_note, kept_offsets, put_back
    from reput.store_format.query.offsets import digest_of, moves_between

    note = kept_note(held.files)
    if note is None:
        report.notes.append("no earlier offsets are kept: there is nothing to undo")
        return
    if note.name != live.name:
        raise StoreError(
            f"{held.path}: {CONFIG}/{note.name} is kept, and a broker reads {report.live} now"
        )
    kept = kept_offsets(held.files, note.name)
    if digest_of(kept) != note.digest:  # or a killed run has not come to its change
        report.moves = moves_between(live.offsets, kept)
    if report.moves and note.digest != digest_of(live.offsets):
        report.notes.append("offsets have moved since the change")
    if held.dry_run:
        return
    if report.moves:
        _ask(held, asked, live, f"put back {len(report.moves):,} offsets in {report.live}")
        put_back(held.files, live, kept)
    else:
        forget(held.files)
    report.done = True


def _ask(held: "HeldStore", asked: OfOffsets, live: "LiveOffsets", what: str) -> None:
    """Ask before the first change, and make sure of the lock."""
    asked.confirm(f"{what} of {held.path}")
    held.lock_at_last()
    if _live(held.folder, asked) != live:
        raise StoreChanged(f"{held.path}: its offsets changed meanwhile; nothing is done")
    held.changed = True


def _plan(
    held: "HeldStore", asked: OfOffsets, live: "LiveOffsets", report: OffsetsReport
) -> None:  # fmt: skip
    """Put what is to be moved into the report, by the bounds of the store's queues."""
    from reput.store_format.query import offsets as of
    from reput.store_format.query.by_queue import position_from
    from reput.store_format.query.inventory import queues
    from reput.store_format.query.reader import OpenedStore

    chosen, notes = of.Chosen(asked.groups, asked.topics, asked.queues), Notes(report.notes.append)
    release = asked.rocketmq or RELEASES[-1]
    with OpenedStore(held.folder, release, asked.settings or {}, notes) as opened:
        bounds = queues(opened, False, notes)

        def position(row: "QueueRow") -> int:
            if asked.to_time is None:
                return row.max_offset if asked.to_offset is None else asked.to_offset
            queue = opened.queue(row.topic, row.queue_id, row.batch)
            return position_from(queue, asked.to_time, opened.log)

        if asked.from_dump:
            rows = of.rows_in(asked.from_dump, _read(asked.from_dump), of.OffsetRow)
            rows = [row for row in rows if chosen.takes(row.group, row.topic, row.queue)]
        elif asked.to_group:
            rows = of.rows_to_clone(live.offsets, chosen, asked.to_group)
        elif asked.map:
            rows = of.rows_of(live.offsets, chosen)
        else:
            rows = list(of.rows_to_set(live.offsets, bounds, chosen, position))
        many = len(rows)
        if asked.map:
            rows = of.rows_mapped(rows, of.rows_in(asked.map, _read(asked.map), of.MapRow))
        elif asked.as_of_trace is not None:
            rows = of.rows_traced(opened, asked.as_of_trace, rows, notes)
    report.unmapped = many - len(rows)
    moves = of.confined(rows, live.offsets, bounds)
    if not any(move.offset >= 0 for move in moves) and not report.unmapped:
        none = f"none of {len(rows):,} queues" if rows else "no such offset"
        raise StoreError(f"{held.path}: has {none}: nothing can be set")
    report.moves = [move for move in moves if move.before != move.offset or move.offset < 0]
    report.left = sum(move.asked > move.offset for move in moves)
    at_end = sum(move.asked > move.offset == move.before >= 0 for move in moves)
    if at_end:
        what = "offset stays at its" if at_end == 1 else "offsets stay at their"
        report.notes.append(f"{at_end:,} {what} queue's end: no message is as far as was asked")


def _request(asked: OfOffsets) -> str:
    """A digest of what is asked. Raises SettingError where it cannot be done."""
    from reput.store_format.query.offsets import is_name

    action = "undo" if asked.undo and asked.action != "dump" else asked.action
    if action not in _TAKES:
        raise SettingError(f"action {action!r}: expected dump, set, clone or map")
    takes, all_words = _TAKES[action], (word for words in _TAKES.values() for word in words)
    own = {word: getattr(asked, word[2:].replace("-", "_")) for word in all_words}
    given = [word for word, value in own.items() if value is not None and value is not False]
    if wrong := [word for word in given if word not in takes]:
        raise SettingError(f"{action} does not take {wrong[0]}")
    if len(given) != 1 if action == "set" else {*takes[:1]} - {*given}:
        which = f"one of {', '.join(takes)}" if action == "set" else takes[0]
        raise SettingError(f"{action} takes {which}")
    if action == "clone" and len(asked.groups) != 1:
        raise SettingError("clone takes one --group")
    for name in (*asked.groups, *asked.topics, *([asked.to_group] if asked.to_group else ())):
        if not is_name(name):
            raise SettingError(f"{name!r}: no group or topic has such a name")
    said = [action, asked.groups, asked.topics, asked.queues, own]
    digest = hashlib.sha256(json.dumps(said, default=list).encode())
    for path in filter(None, (asked.from_dump, asked.map)):
        digest.update(_read(path))
    return digest.hexdigest()


def _read(path: str) -> bytes:
    storage = storage_for(path)
    try:
        return storage.read_bytes(storage.resolve(path))
    except OSError as error:
        raise StoreError(f"{path}: {error.strerror or error}") from None


def _live(folder: Folder, asked: OfOffsets, notes: Notes | None = None) -> "LiveOffsets":
    """What a broker reads. Without notes, StoreError where it cannot be read."""
    from reput.store_format.discover.config import live_offsets

    live = live_offsets(folder, said := notes or Notes(), asked.settings or {})
    if said.lacking and notes is None:
        raise StoreError("; ".join(said.lines))
    return live


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("action", choices=("dump", "set", "clone", "map"), help="what to do")
    options.add_service(parser, OfOffsets, _EPILOG, times=True)


def run(arguments: argparse.Namespace) -> int:
    """Print a dump, or say what was moved: 1 where something is left, or lacking."""
    report = offsets(options.asked_of(arguments, OfOffsets))
    if report.action == "dump":
        for line in report.notes:
            remark(line)
        for row in report.rows:
            sys.stdout.write(json.dumps(row._asdict(), ensure_ascii=False) + "\n")
        return options.DAMAGE if report.lacking else options.DONE
    moves = [move._asdict() for move in report.moves]
    options.show(arguments, {**asdict(report), "moves": moves}, report.text(),
         good=not report.left)  # fmt: skip
    return options.DAMAGE if report.left or (report.moves and not report.done) else options.DONE
