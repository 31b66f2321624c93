"""Exports a log's messages as a set of files, with values redacted, and compares such a set with
the log; the reports of both.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from typing import Any

import pyarrow as pa

from reput.jobs.engines.engine import Engine, Row
from reput.jobs.exporting.read_back import UNREADABLE, batches_in, file_digest
from reput.jobs.opening.plan import Plan, check_unchanged
from reput.jobs.outputs.output import DATA, EXPORT_FORMAT, Output, parse_manifest
from reput.jobs.outputs.output import EXPORTED as EXPORTED_SET
from reput.jobs.outputs.publish import Temporary, begin_set, end_set, move_in
from reput.jobs.outputs.report import counted
from reput.jobs.pipeline.job import FoundStore
from reput.jobs.pipeline.pipeline import Pipeline
from reput.jobs.salvaging.damage_map import lost_end
from reput.jobs.salvaging.lives import judged_log, log_end
from reput.jobs.sources.opened_log import cut, end_of_log, log_now, parts_log
from reput.jobs.sources.options import SourceOptions
from reput.store_format.faults import SALVAGE, DamageFound, StoreError
from reput.store_format.files.folder import Folder
from reput.store_format.filter.filters import AllOf, Filter, tag_filter
from reput.store_format.filter.texts import LEAST, Repeats
from reput.store_format.names import MANIFEST, SYSTEM_PREFIX, SYSTEM_TOPICS
from reput.store_format.release.settings import SettingError
from reput.udfs.staging import Staging
from reput.udfs.table import export
from reput.udfs.table.columns import SCHEMA, Choice, QueueRange
from reput.udfs.table.log_parts import LogPart, LogParts
from reput.udfs.table.redaction import BODY, BODY_HASH, FOUND, PROPERTY, LookThrough, Redaction

# ---
# Parses `--redact`, and finds the values to be redacted before messages are written.

# Redaction -> texts found in the log, with their numbers of messages (udfs LookThrough).
Look = Callable[[Redaction], Counter[bytes]]


def redaction(words: Sequence[str]) -> Redaction | None:
    """The redaction of `body`, `body:hash`, `property:NAME` words, if any. Raises SettingError."""
    body, names = None, set()
    for word in words:
        if word in (BODY, BODY_HASH) and body in (None, word):
            body = word
        elif word.startswith(PROPERTY) and len(word) > len(PROPERTY):
            names.add(word.removeprefix(PROPERTY))
        else:
            raise SettingError(f"--redact {word}: expected body, body:hash or property:NAME")
    return Redaction(body, frozenset(names)) if words else None


def looked_through(
    redacted: Redaction, look: Look, texts: Mapping[str, str], keep_repeats: bool,
    warnings: list[str],
) -> Redaction:  # fmt: skip
    """The redaction with the values that it takes out.

    texts: name -> text that is written besides messages. If a value also stands where it cannot be
    taken out, raises SettingError, or with keep_repeats adds a warning.
    """
    if not redacted.properties:
        return redacted
    values = look(redacted)
    knowing = replace(redacted, repeats=Repeats(values))
    if short := len(values) - len(knowing.repeats.texts):
        warnings.append(f"{short:,} redacted values have fewer than {LEAST} bytes: not looked for")
    if not knowing.repeats.texts:
        return knowing
    left = [
        f"{name.decode()} ({counted(many, 'message')})"
        for name, many in sorted(look(knowing).items())
    ]
    raw = [text.encode("utf-8", "replace") for text in texts.values()]
    left += [name for n, name in enumerate(texts) if n in knowing.repeats.found_in(raw)]
    if left:
        said = f"--redact: what is redacted stands in {', '.join(left)} too"
        if not keep_repeats:
            body = "--redact body removes bodies, " if left[0].startswith(BODY) else ""
            raise SettingError(f"{said}: {body}--keep-repeats leaves all of it")
        warnings.append(f"{said}, and stays")
    return knowing


# ---
# The reports of an export, and of the comparison of an export with its log.

_SHOWN = 20


@dataclass
class Exported:
    """The result of an export. Offsets are physical; seconds: time of the whole job."""

    store: str
    output: str
    kind: str
    release: str
    log_start: int
    log_end: int  # offset up to which the log was read
    chosen: dict[str, Any]  # the options that choose messages and columns
    sums: export.MessageSums
    segment_bytes: int = 0  # of the log; `append` gives a new store the same
    files: list[dict[str, Any]] = field(default_factory=list)  # path, length, sha256, messages
    left_out: int = 0
    system: int | None = 0  # messages of system topics left out; None: not counted
    notes: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    cleaned: list[str] = field(default_factory=list)
    seconds: float = 0.0
    unread = False  # no field: whether messages went that nobody had asked to leave out

    @property
    def messages(self) -> int:
        return self.sums.messages

    @property
    def complete(self) -> bool:
        """Whether what was asked for is there: only what --on-damage leaves out is missing, and
        named topics have messages.
        """
        asked = self.chosen.get("on_damage", "fail") != "fail" and not self.unread
        return (asked or not self.left_out) and not self._nothing

    @property
    def _nothing(self) -> bool:
        return bool(self.chosen.get("topics")) and not self.messages

    def without(self, lost: Sequence[str]) -> None:
        """Note what the log is known to have lost at its end."""
        self.left_out += len(lost)
        self.notes = [*lost, *self.notes][: export.NOTES_MOST]

    def manifest(self) -> dict[str, Any]:
        """The content of the set's manifest."""
        whole = asdict(self)
        del whole["seconds"], whole["cleaned"], whole["output"]
        return {"format": EXPORT_FORMAT, **whole}

    def as_json(self) -> dict[str, Any]:
        return {**asdict(self), "messages": self.messages}

    def text(self) -> str:
        length = sum(each["length"] for each in self.files)
        files = f" in {counted(len(self.files), 'file')}, {length:,} bytes"
        lines = [
            f"exported {self.store} -> {self.output}",
            f"  log       {self.log_start:,} to {self.log_end:,}",
            f"  messages  {self.messages:,}{'' if self.kind == 'delta' else files}",
            f"  time      {self.seconds:.1f} s",
        ]
        if self.system != 0:
            many = "not counted" if self.system is None else counted(self.system, "message")
            how = "`reput convert` takes them" if self.kind == "rocketmq" else "--system-topics"
            lines.append(f"  system    {many} of system topics left out: {how}")
        if self._nothing:
            named = ", ".join(map(repr, self.chosen["topics"]))
            lines.append(f"  nothing   the log has no such message of topic {named}")
        if self.left_out:
            lines.append(f"  left out  at {counted(self.left_out, 'place')}:")
            lines += [f"    {note}" for note in self.notes[:_SHOWN]]
        return "\n".join(lines + [f"  warning   {each}" for each in self.warnings])


@dataclass
class ComparedExport:
    """An export compared with its log, or with its own manifest where `store` is None.

    differences: empty if both have the same messages.
    """

    store: str | None
    output: str
    messages: int
    differences: list[str]

    @property
    def same(self) -> bool:
        """Whether nothing differs."""
        return not self.differences

    def as_json(self) -> dict[str, Any]:
        return {**asdict(self), "same": self.same}

    def text(self) -> str:
        judge = "its manifest" if self.store is None else f"the log of {self.store}"
        if self.same:
            many = counted(self.messages, "message")
            return f"{self.output}: {many}, as {judge} has them"
        return "\n".join([f"{self.output}: differs from {judge}", *(
            f"  {each}" for each in self.differences)])  # fmt: skip


# ---
# Exports a log's messages as a set of files, and compares such a set with the log.

_SUMMED = pa.schema([SCHEMA.field(name) for name in ("physicalOffset", "bodyCRC", "size")])
_BODY = SCHEMA.get_field_index("body")


@dataclass(frozen=True)
class Chosen:
    """The options that choose messages and columns. since, until: storeTimestamps in ms."""

    topics: tuple[str, ...] = ()
    tags: str | None = None
    sql: str | None = None
    since: int | None = None
    until: int | None = None  # exclusive
    bodies: bool = True
    decompress: bool = False
    on_damage: str = "fail"
    system_topics: bool = True  # whether brokers' topics are taken if no topics are named
    redact: tuple[str, ...] = ()  # values of `--redact`
    offsets: tuple[tuple[str, int, int], ...] = ()  # of --unconsumed-by: topic, queue, from where

    def as_json(self) -> dict[str, Any]:
        """The options for a manifest; defaults of options that older exports lack are left out."""
        fields = {**vars(self), "topics": list(self.topics), "redact": list(self.redact)}
        return {
            name: value for name, value in fields.items()
            if name not in _LATER or getattr(self, name) != getattr(_EVERYTHING, name)
        }  # fmt: skip

    @classmethod
    def from_json(cls, fields: dict[str, Any]) -> "Chosen":
        """The options of a manifest. Raises KeyError, TypeError, ValueError."""
        redact, offsets = tuple(fields.get("redact", ())), fields.get("offsets", ())
        more = {"redact": redact, "offsets": tuple((t, int(q), int(n)) for t, q, n in offsets)}
        return cls(**{**fields, "topics": tuple(fields["topics"]), **more})

    def lacks(self, plan: Plan, end: int) -> list[str]:
        """Lines on what of this the log is known to have lost at its end.

        A broker whose lock cannot be asked about may have written on meanwhile.
        """
        lost = lost_end(plan, end, self.takes)
        if lost and plan.splits.limit is None:
            log = parts_log(plan, SourceOptions(plan.store, on_damage=self.on_damage), False, True)
            with suppress(DamageFound):
                lost = lost_end(plan, end_of_log(log_now(plan, log), end), self.takes)
        return [*plan.lacks, *lost]

    def takes(self, topic: str) -> bool:
        """Whether messages of a topic are taken, as far as it alone tells."""
        if self.topics:
            return topic in self.topics
        system = topic in SYSTEM_TOPICS or topic.startswith(SYSTEM_PREFIX)
        return self.system_topics or not system

    @property
    def with_system(self) -> bool:
        """Whether messages of system topics are taken, as always if topics are named."""
        return self.system_topics or bool(self.topics)

    @property
    def other_crcs(self) -> bool:
        """Whether bodies and their CRCs may differ from those of the log."""
        return self.decompress or bool(self.redact)

    @property
    def columns(self) -> pa.Schema:
        return SCHEMA if self.bodies else SCHEMA.remove(_BODY)

    @property
    def said(self) -> str:
        """The texts of the options that a manifest has."""
        return "\n".join((*self.topics, self.tags or "", self.sql or ""))

    @property
    def choice(self) -> Choice:
        """The part of the choice that columns can decide."""
        queues = {(topic, queue): QueueRange(start) for topic, queue, start in self.offsets}
        begun = {topic for topic, _ in queues}
        topics = tuple(t for t in self.topics or sorted(begun) if t in begun or not queues)
        known = topics if queues else topics or None
        return Choice(known, None, self.since, self.until, queues)

    def wanted(self, plan: Plan) -> Filter | None:
        """The part that is a consumer's filter (tags, SQL). Raises WrongTags, WrongExpression."""
        found: list[Filter] = [] if self.tags is None else [tag_filter(self.tags)]
        if self.sql is not None:
            from reput.store_format.filter.sql import sql_filter

            found.append(sql_filter(self.sql, plan.profile))
        return AllOf(*found) if found else None


_LATER = ("system_topics", "redact", "offsets")
_EVERYTHING = Chosen()


def export_set(
    found: FoundStore, target: Output, kind: str, chosen: Chosen, keep_repeats: bool = False
) -> Exported:
    """Write the chosen messages, and publish them in `target`.

    Raises StoreError (also DamageFound and StoreChanged); a failed export leaves no files.
    """
    with found.publishing(target) as (job, cleaned):
        plan = job.plan
        log, parts = _parts(job, chosen, found.cut.split_bytes)
        warnings = [*plan.notes, *plan.warnings]
        redacted = redaction(chosen.redact)
        if redacted is not None and parts:
            look = partial(_look, found.engine, log, parts, plan, chosen)
            texts = {"the options": chosen.said}
            redacted = looked_through(redacted, look, texts, keep_repeats, warnings)
        rows = _run(found.engine, log, parts, plan, chosen, kind, job.staging, redacted)
        check_unchanged(plan)
        written, begin = [row for row in rows if row["name"]], log.segments[0].start
        paths = [f"{DATA}/part-{number:08d}.{kind}" for number in range(len(written))]
        done = Exported(
            store=plan.store, output=target.path, kind=kind, release=plan.profile.release,
            log_start=begin, log_end=max((begin, *(row["end"] for row in rows))),
            chosen=chosen.as_json(), sums=_added(rows), warnings=warnings, cleaned=cleaned,
            segment_bytes=plan.settings.mapped_file_size_commit_log,
            system=sum(row["system"] for row in rows),
            left_out=sum(row["left_out"] for row in rows),
            notes=[note for row in rows for note in row["notes"]][:export.NOTES_MOST],
        )  # fmt: skip
        done.without(chosen.lacks(plan, done.log_end))
        done.files = [
            {"path": path, **{name: row[name] for name in ("length", "sha256", "messages")}}
            for path, row in zip(paths, written, strict=True)
        ]
        names = [row["name"] for row in written]
        move_in(job.staging, list(zip(names, paths, strict=True)), begin_set(job.staging, target))
        end_set(job.staging, done.manifest(), target)
        done.seconds = found.seconds()
        return done


def compare_set(found: FoundStore, folder: Folder) -> ComparedExport:
    """Compare counts, sums and CRCs of an export with its log. Raises StoreError for no export."""
    manifest = export_manifest(folder)
    there, differences = _read_back(folder, manifest)
    chosen = chosen_of(manifest, folder.path)
    plan = found.plan
    stop = int(manifest["log_end"])
    with found.temporarily(Temporary.EXPORT) as job:
        log, parts = _parts(job, replace(chosen, decompress=False), None)
        parts = [part._replace(stop=min(part.stop, stop)) for part in parts if part.start < stop]
        rows = _run(found.engine, log, parts, plan, chosen, "", job.staging)
    log_has = _added(rows)
    for name, value in vars(log_has).items():
        stored = getattr(there, name)
        if stored != value and not (name == "crcs" and chosen.other_crcs):
            differences.append(f"{name}: {stored:,}, the log has {value:,}")
    return ComparedExport(plan.store, folder.path, there.messages, differences)


def check_set(folder: Folder) -> ComparedExport:
    """Compare an export with its own manifest. Raises StoreError for no export."""
    manifest = export_manifest(folder)
    there, differences = _read_back(folder, manifest)
    for name, value in (manifest.get("sums") or {}).items():
        if (stored := getattr(there, name, value)) != value:
            differences.append(f"{name}: {stored:,}, its manifest says {value:,}")
    return ComparedExport(None, folder.path, there.messages, differences)


def _read_back(folder: Folder, manifest: dict[str, Any]) -> tuple[export.MessageSums, list[str]]:
    """(sums over an export's messages, what its files are not that its manifest says)."""
    there, differences = export.MessageSums(), wrong_files(folder, manifest)
    files = zip(manifest["files"], batches_in(folder, manifest), strict=True)
    for said, (path, batches) in files:
        before = there.messages
        try:
            for batch in batches:
                there.add(batch)
                differences += export.wrong_bodies(path, batch)
        except (*UNREADABLE, OSError) as error:
            differences.append(f"{path}: cannot be read ({type(error).__name__})")
            continue
        if (many := there.messages - before) != said.get("messages", many):
            noted = f"its manifest says {said['messages']:,}"
            differences.append(f"{path}: has {many:,} messages, {noted}")
    return there, differences


def wrong_files(folder: Folder, manifest: dict[str, Any]) -> list[str]:
    """Lines on the files of an export that are not as its manifest says: whole, and no others."""
    wrong, there = list[str](), dict(folder.listed())
    there |= {f"{DATA}/{name}": state for name, state in folder.listed(DATA)}
    for each in manifest["files"]:
        path, state = f"{folder}/{each['path']}", there.pop(each["path"], None)
        if state is None:
            wrong.append(f"{path}: is missing")
        elif state.size != each["length"]:
            said = f"its manifest says {each['length']:,}"
            wrong.append(f"{path}: has {state.size:,} bytes, {said}")
        elif (digest := file_digest(folder.storage, path)) != each["sha256"]:
            wrong.append(f"{path}: has the SHA-256 {digest}, its manifest says {each['sha256']}")
    more = sorted(name for name in there if name.endswith((export.PARQUET, export.JSONL)))
    return wrong + [f"{folder}/{name}: is not in the manifest" for name in more]


def whole_export(folder: Folder) -> dict[str, Any]:
    """The manifest of an export whose files are as it says. Raises StoreError, DamageFound."""
    manifest = export_manifest(folder)
    wrong = wrong_files(folder, manifest)
    if wrong:
        more = f" (and {len(wrong) - 1:,} more)" if len(wrong) > 1 else ""
        raise DamageFound(f"{wrong[0]}{more}: the export is not as it was written")
    return manifest


def export_manifest(folder: Folder) -> dict[str, Any]:
    """The manifest of an export. Raises StoreError if there is none."""
    path = f"{folder}/{MANIFEST}"
    try:
        raw = folder.storage.read_bytes(path)
    except (FileNotFoundError, NotADirectoryError):
        raise StoreError(f"{folder}: is not an export: it has no {MANIFEST}") from None
    return parse_manifest(raw, path, EXPORTED_SET)


def chosen_of(manifest: dict[str, Any], folder: str) -> Chosen:
    """The options in an export's manifest. Raises StoreError."""
    try:
        return Chosen.from_json(dict(manifest["chosen"]))
    except (KeyError, TypeError, ValueError):
        raise StoreError(f"{folder}/{MANIFEST}: does not say what was chosen") from None


def _parts(job: Pipeline, chosen: Chosen, part_bytes: int | None) -> tuple[LogParts, list[LogPart]]:
    plan = job.plan
    options = SourceOptions(plan.store, on_damage=chosen.on_damage)
    log = parts_log(plan, options, chosen.bodies, grows=False)
    if chosen.on_damage == SALVAGE:
        log = judged_log(job, log)
    wanted = None if part_bytes is None else max(plan.log_bytes // part_bytes, 1)
    return log, cut(log, log.segments[0].start, log_end(plan), job.cores, wanted)


def _run(
    engine: Engine, log: LogParts, parts: list[LogPart], plan: Plan, chosen: Chosen, kind: str,
    staging: Staging, redacted: Redaction | None = None,
) -> list[Row]:  # fmt: skip
    if not parts:
        return []
    columns = chosen.columns if kind else _SUMMED
    messages = export.ChosenMessages(
        log, tuple(parts), chosen.choice, chosen.wanted(plan), columns, chosen.decompress,
        system_topics=chosen.with_system, redaction=redacted,
    )  # fmt: skip
    task = export.ExportParts(messages, kind, staging)
    rows = engine.numbers(range(len(parts))).run(task, export.EXPORTED).collect()
    return sorted(rows, key=lambda row: row["part"])


def _look(
    engine: Engine, log: LogParts, parts: list[LogPart], plan: Plan, chosen: Chosen,
    redacted: Redaction,
) -> Counter[bytes]:  # fmt: skip
    task = LookThrough(
        log, tuple(parts), chosen.choice, chosen.wanted(plan), chosen.columns, chosen.with_system,
        redacted,
    )  # fmt: skip
    found: Counter[bytes] = Counter()
    for row in engine.numbers(range(len(parts))).run(task, FOUND).collect():
        found[row["text"]] += row["messages"]
    return found


def _added(rows: Iterable[dict[str, Any]]) -> export.MessageSums:
    whole = export.MessageSums()
    for row in rows:
        whole.join(export.MessageSums(*(row[name] for name in vars(whole))))
    return whole
