"""`Summary` of a rebuild, also kept in manifest.json; counts and ranges as texts."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from reput.store_format.derived.index_names import BY_PROCESS, INDEX_NAMES
from reput.store_format.discover.config import has_rows
from reput.store_format.discover.store import ERAS, discovered_lines
from reput.store_format.faults import CRC_FAULTS, REASONS
from reput.store_format.files.folder import Folder
from reput.store_format.names import (
    BATCH_CONSUME_QUEUE,
    COMMIT_LOG,
    CONFIG,
    CONSUME_QUEUE,
    DLEDGER,
    INDEX,
    POP_DB,
    ROCKSDB_QUEUES,
    STORE_DB,
)
from reput.store_format.state_table import CONFIG_DBS, FILES, Copies

if TYPE_CHECKING:
    from reput.jobs.opening.plan import Plan

# ---
# Counts as texts for people.


def counted(count: int, what: str) -> str:
    """`1 file`, `3 files`, `7,525 keys`, `2 copies`; what: the noun in the singular."""
    return f"{count:,} {what if count == 1 else plural(what)}"


def files_text(paths: Iterable[str]) -> str:
    """A set's files: `21 derived files and 2 of a broker's state`; queues and index are derived."""
    tops = [path.partition("/")[0] for path in paths]
    derived = sum(top in (*ROCKSDB_QUEUES, BATCH_CONSUME_QUEUE, INDEX, STORE_DB) for top in tops)
    state = len(tops) - derived
    return counted(derived, "derived file") + (f" and {state} of a broker's state" if state else "")


def plural(what: str) -> str:
    if what.endswith("y") and what[-2:-1] not in "aeiou":
        return f"{what[:-1]}ies"
    return f"{what}s"


# ---
# What of a store's state a copy does not take over.


def carried_names(folder: str = "") -> set[str]:
    """The names, in a folder of a store, of what a copy takes over besides the log (state_table).

    folder: with a slash, or the store's root.
    """
    carried = [row.path for row in FILES if row.copies == Copies.CARRY]
    found = {path.removeprefix(folder).partition("/")[0] for path in carried if folder in path}
    return found - {COMMIT_LOG, f"{DLEDGER}<id>"}


def left_behind(store: Folder, taken: Collection[str]) -> list[str]:
    """A line on the state that a copy leaves behind; none where there is nothing.

    taken: names of what it takes over, in the store's root or in config/; with a file's name go
    the RocksDBs that a broker may have in its place.
    """
    instead = {each for name in taken for each in CONFIG_DBS.get(name, ())}
    found = []
    for folder in ("", f"{CONFIG}/"):
        names = carried_names(folder) - {CONFIG, *taken, *instead}
        for name, state in store.listed(folder.rstrip("/")):
            path = f"{folder}{name}"
            if name in names and (name != POP_DB or has_rows(store / path)):
                found.append(f"{path}/" if state is None else path)
    return [f"not taken over: {', '.join(sorted(found))}"] if found else []


# ---
# The summary of a rebuild, which is printed, returned, and kept in manifest.json.

MANIFEST_FORMAT = "reput-manifest-1"
SHARDED_FORMAT = "reput-manifest-2"  # it lists files in shards too
CHECKSUMS = frozenset(REASONS[fault][0] for fault in CRC_FAULTS)  # names of fields
_RATED_LEAST = 1 << 26  # bytes of a log; a small one takes the time of a start
_RANGES_SHOWN, _RANGES_MOST = 2, 20  # without -v and with it


@dataclass
class OutputFile:
    """One published file: its path below the output, length in bytes, SHA-256 in hex.

    written: how many of its bytes the SHA-256 is of, zeros follow them; None: all.
    """

    path: str
    length: int
    sha256: str
    entries: int = 0
    written: int | None = None


@dataclass
class Shard:
    """A file of a large set that lists others of it: a line of JSON for each, as a manifest has."""

    path: str
    length: int
    sha256: str
    files: int


@dataclass
class InputFile:
    """One segment as it was read: its path, length in bytes, and mtime."""

    path: str
    length: int
    mtime_ns: int


@dataclass
class Summary:
    """The result of a rebuild. Sizes in bytes, times in seconds."""

    store: str
    output: str
    rocketmq: str
    profile: dict[str, Any]
    settings: dict[str, Any]
    log_start: int
    log_end: int
    end_reason: str
    messages: int = 0
    index_keys: int = 0
    queues: int = 0
    queues_in: str = "files"  # or rocksdb
    index_in: str = "files"
    queue_files: int = 0
    index_files: int = 0
    bytes_scanned: int = 0
    discovered: dict[str, Any] = field(default_factory=dict)  # what store_format/discover found
    seconds: float = 0.0
    stages: dict[str, float] = field(default_factory=dict)  # seconds of scan, build and publish
    on_damage: str = "refuse"
    damage: dict[str, Any] | None = None  # damage passed over, see jobs/salvaging
    warnings: list[str] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)
    in_no_queue: list[str] = field(default_factory=list)  # OfQueues.left_out
    waits: list[str] = field(default_factory=list)  # timers and delays: files written for them
    cleaned: list[str] = field(default_factory=list)  # leftovers of other runs, removed
    releases: str = ""  # text that names the releases which write the same
    inputs: list[InputFile] = field(default_factory=list)
    files: list[OutputFile] = field(default_factory=list)
    shards: list[Shard] = field(default_factory=list)  # of the other files, if there are many

    def count_files(self, folders: Iterable[str]) -> None:
        """Count the published files. folders: the folder below the output of each file."""
        files = list(folders)
        self.index_files = files.count(INDEX) + files.count(STORE_DB)
        self.queue_files = len(files) - self.index_files
        self.queues = len(set(files) - {INDEX, STORE_DB})

    def manifest(self) -> dict[str, Any]:
        """The content of manifest.json: all fields but those that differ from run to run.

        Values are not copied, as a set may have 200,000 files.
        """
        whole = {"format": MANIFEST_FORMAT, **vars(self)}
        del whole["seconds"], whole["stages"], whole["output"], whole["cleaned"]
        del whole["releases"], whole["shards"]
        whole["inputs"] = [vars(each) for each in self.inputs]
        whole["files"] = [vars(each) for each in self.files]
        if self.shards:
            whole["format"] = SHARDED_FORMAT
            whole["shards"] = [vars(each) for each in self.shards]
        return whole

    def as_json(self) -> dict[str, Any]:
        """The content of --json: counts instead of the lists of files."""
        whole = dict(vars(self))
        whole["input_files"] = len(whole.pop("inputs"))
        shards = sum(each.files for each in whole.pop("shards"))
        whole["output_files"] = len(whole.pop("files")) + shards
        return whole

    def text(self) -> str:
        large = self.bytes_scanned >= _RATED_LEAST and self.seconds
        rate = f", {self.bytes_scanned / self.seconds / 1e6:,.1f} MB/s" if large else ""
        made = (
            counted(self.messages, "message"),
            f"{counted(self.queues, 'queue')} in {counted(self.queue_files, 'file')}"
            + _of_what(self.queues_in),
            f"{counted(self.index_keys, 'index key')} in {counted(self.index_files, 'file')}"
            + _of_what(self.index_in),
        )
        lines = [
            f"rebuilt {self.store} -> {self.output} as RocketMQ {self.releases or self.rocketmq} "
            "would",
            f"  log       {self.log_start:,} to {self.log_end:,} ({self.end_reason})",
            f"  made      {', '.join(made)}",
            f"  time      {self.seconds:.1f} s{rate}",
        ]
        lines += [f"  waits     {line}" for line in self.waits]
        lines += guessed_lines(self.discovered)
        if self.damage and damage_line(self.damage) != "none":
            lines.append(f"  damage    {damage_line(self.damage)}")
        ranges = self.damage["ranges"] if self.damage else ()
        lines += [f"  range     {short_range(each)}" for each in ranges[:_RANGES_SHOWN]]
        whole = {range_text(each) for each in ranges}  # -v shows these
        lines += [f"  warning   {each}" for each in self.warnings if each not in whole]
        lines += [f"  left out  {queue}" for queue in (*self.left_out, *self.in_no_queue)]
        lines += [
            f"  cleaned   {folder}, left by a run that ended early" for folder in self.cleaned
        ]
        return "\n".join(lines)

    def details(self) -> list[str]:
        causes = self.damage["causes"] if self.damage else ()
        ranges = self.damage["ranges"] if self.damage else ()
        return [
            *(f"  cause     {cause_line(each)}" for each in causes),
            *(f"  range     {range_text(each)}" for each in ranges[:_RANGES_MOST]),
            *found_lines(self.discovered),
        ]


def _of_what(kind: str) -> str:
    return "" if kind == "files" else " of a RocksDB"


def found_lines(discovered: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Lines for -v about what the store's files show."""
    return [f"  found     {line}" for line in discovered_lines(discovered)]


def guessed_lines(discovered: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """A line on what neither the user nor the store says: in which zone index files are named."""
    named = discovered.get(INDEX_NAMES)
    return found_lines({INDEX_NAMES: named}) if named and named["by"] == BY_PROCESS else []


def summary_of(plan: "Plan", output: str, log_end: int, end_reason: str) -> Summary:
    """The summary of a set before its files are counted. log_end: a physical offset."""
    return Summary(
        store=plan.store,
        output=output,
        rocketmq=plan.profile.release,
        profile=asdict(plan.profile),
        settings=plan.settings.by_name(),
        discovered=plan.discovered.as_json(),
        releases=plan.discovered.releases,
        log_start=plan.segments[0].start,
        log_end=log_end,
        end_reason=end_reason,
        warnings=[*plan.notes, *plan.warnings],
        inputs=[InputFile(s.path, s.state.size, s.state.mtime) for s in plan.segments],
    )


SLASH = (
    "the queue of an LMQ with a slash in its name: a broker takes its folder for a queue's file, "
    "and does not start; `reput convert --to-rocketmq 5.1.2`, or later, writes a store without it"
)


def slash_in(files: Iterable[OutputFile]) -> str:
    """What comes before a broker's start on a store with these files, for such a queue; else ''."""
    folders = (file.path.rpartition("/")[0] for file in files)
    found = (each for each in folders if each.startswith(f"{CONSUME_QUEUE}/"))
    return next((f"{each}: {SLASH}" for each in found if each.count("/") > 2), "")


def damage_line(damage: dict[str, Any]) -> str:
    """A line with the amount of damage passed over, and what is not read or past the log's end."""
    left, past = len(damage.get("left_out", ())), damage.get("messages_past_end", 0)
    more = []
    if left:
        more.append(f"{counted(left, 'file')} of the log not read, whose messages are lost")
    if past:
        more.append(f"queues name {counted(past, 'message')} past the log's end")
    if not damage["range_count"]:
        return "; ".join(["none within the log", *more] if past else more) or "none"
    ranges = counted(damage["range_count"], "range")
    if not damage["bytes_lost"] and not damage["messages_missing"]:
        return "; ".join([ranges, *more]) if more else f"{ranges}, nothing is known to be lost"
    return "; ".join([
        f"{ranges}, {counted(damage['bytes_lost'], 'byte')} lost",
        f"{counted(damage['messages_missing'], 'message')} known to be missing",
        *more,
    ])  # fmt: skip


def cause_line(cause: dict[str, Any]) -> str:
    return (
        f"{cause['ranges']:,} {cause['kind']}, {counted(cause['bytes'], 'byte')}: "
        f"{cause['field']}: {cause['reason']}"
    )


def short_range(shown: dict[str, Any]) -> str:
    """A short line about a range: place and fault."""
    kind = shown["kind"]
    if kind == "content":
        kind = "wrong checksum" if shown["field"] in CHECKSUMS else "doubtful record"
    return (
        f"{kind} at offset {shown['physical_offset']:,}, {counted(shown['length'], 'byte')}: "
        f"{shown['field']}: {shown['reason']}"
    )


def range_text(shown: dict[str, Any]) -> str:
    """A full line about a range: file, offset, length, field, reason, and what follows."""
    where = f"{shown['file']}: offset {shown['offset']}, " if shown["file"] else ""
    value = f" (it says {shown['value']})" if shown["value"] is not None else ""
    missing = ", ".join(
        f"{gap['topic']}/{gap['queue_id']}: {_positions(gap)}" for gap in shown["missing"]
    )
    return (
        f"{where}physical {shown['physical_offset']}, {shown['length']:,} bytes {shown['kind']}: "
        f"{shown['field']} {shown['reason']}{value}; {shown['sureness']}, by "
        f"{' and '.join(shown['witnesses']) or 'nobody'}"
        + (f", against {' and '.join(shown['against'])}" if shown["against"] else "")
        + f"; then {shown['follows']}"
        + (f"; missing {missing}" if missing else "")
    )


def _positions(gap: dict[str, Any]) -> str:
    last = gap["first"] + gap["count"] - 1
    return str(last) if gap["count"] == 1 else f"{gap['first']}..{last}"


def era_lines(discovered: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """A line for people if brokers of several releases wrote the store; else none."""
    return [f"  releases  {discovered[ERAS]['value']}"] if ERAS in discovered else []
