"""The objects of a repository's catalogue, to and from JSON: a run, the pieces of the log and
the other files that it names, and a forget (docs/formats/repository.md).

Each field is checked as it is read: anybody may have edited a file.
"""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from reput.store_format.faults import StoreError

FORMAT = "reput-repository-1"
PIECE_BYTES = 64 << 20  # of a piece, at most
_HEX = re.compile(r"[0-9a-f]{64}", re.ASCII)
_MOST = 1 << 62  # no offset, length or time is as large
Span = tuple[int, int]


class Piece(NamedTuple):
    """Bytes of the log, in a file of their own. offset: physical; stored: the file's length."""

    offset: int
    length: int
    sha256: str  # of the plain bytes
    stored: int
    records: int
    times: Span  # least and greatest storeTimestamp; (0, 0) without a record
    damaged: tuple[Span, ...] = ()  # where no whole record is: they are kept as they were

    @property
    def end(self) -> int:
        return self.offset + self.length

    @property
    def name(self) -> str:
        return f"{self.offset:020d}-{self.length}-{self.sha256[:16]}.zst"


class StateEntry(NamedTuple):
    """A file that the log does not decide, as a run found it. path: below the store."""

    path: str
    sha256: str  # of the plain bytes
    length: int
    mode: int
    seen: str = ""  # its FileState in the store: the next run does not read it while it has that

    @property
    def name(self) -> str:
        return f"{self.sha256}.zst"


class LastRecord(NamedTuple):
    """The record with which a run's log ends, by which the next run sees that it goes on."""

    offset: int
    sha256: str
    timestamp: int


class Branch(NamedTuple):
    """How a run's log left its parent's: the parent had bytes up to parent_end."""

    parent_end: int
    differs_at: int


@dataclass(frozen=True)
class Run:
    """A backup: offsets are physical, times milliseconds since 1970."""

    run: int
    parent: int | None
    started: int
    ended: int
    reput: str
    rocketmq: str
    settings: Mapping[str, str]
    first: int  # where the log of its chain begins
    begins: int  # where the broker's own log began then: older segments were deleted
    begin: int  # where its own pieces begin; `from` in JSON
    end: int
    last: LastRecord | None
    pieces: tuple[Piece, ...]
    state: tuple[StateEntry, ...]
    gap: Span | None = None  # what the broker had deleted before it was backed up
    branch: Branch | None = None
    without: tuple[str, ...] = ()  # "secrets"
    forget: int | None = None  # the newest forget before it
    # (topic, queueId, and the fields of jobs.deriving.kept.LastEntry): where queues end of which
    # the log has no message, as nothing else tells
    expired: tuple[tuple[Any, ...], ...] = ()
    more: Mapping[str, Any] = field(default_factory=dict)  # fields of another version

    def as_json(self) -> dict[str, Any]:
        names = ("offset", "sha256", "storeTimestamp")
        last = self.last and dict(zip(names, self.last, strict=True))
        own = {
            "format": FORMAT, "run": self.run, "parent": self.parent, "kind": "backup",
            "started": self.started, "ended": self.ended, "reput": self.reput,
            "rocketmq": self.rocketmq, "settings": dict(self.settings), "first": self.first,
            "begins": self.begins, "from": self.begin, "end": self.end, "last": last,
            "pieces": [piece._asdict() for piece in self.pieces], "gap": self.gap,
            "branch": self.branch and self.branch._asdict(), "without": list(self.without),
            "forget": self.forget, "expired": list(self.expired),
            "state": [each._asdict() for each in self.state],
        }  # fmt: skip
        return own | {name: value for name, value in self.more.items() if name not in own}


class Kept(NamedTuple):
    """What replaces fields of a run whose parents were removed."""

    first: int
    begin: int
    pieces: tuple[Piece, ...]


@dataclass(frozen=True)
class Forget:
    """A forget: the runs that it removed, and with earlier forgets what the others need of them."""

    run: int
    ended: int
    removed: tuple[int, ...]
    kept: Mapping[int, Kept]

    def as_json(self) -> dict[str, Any]:
        kept = {
            str(run): {"first": each.first, "from": each.begin,
                       "pieces": [piece._asdict() for piece in each.pieces]}
            for run, each in self.kept.items()
        }  # fmt: skip
        return {"format": FORMAT, "run": self.run, "kind": "forget", "ended": self.ended,
                "removed": list(self.removed), "kept": kept}  # fmt: skip


def as_bytes(value: Mapping[str, Any]) -> bytes:
    """An object of the repository as its file has it."""
    return json.dumps(value, ensure_ascii=False).encode() + b"\n"


# ---
# From JSON: each field is checked, as anybody may have edited it.


class _Fields:
    """A JSON object's fields. Errors name the file, the field, and what was expected."""

    def __init__(self, value: Any, path: str, of: str = "") -> None:
        if not isinstance(value, dict):
            raise StoreError(f"{path}: {of or 'the whole'}: expected a JSON object")
        self.value, self.path, self.of = value, path, of

    def refuse(self, name: str, wanted: str) -> StoreError:
        shown = json.dumps(self.value.get(name))[:80]
        dot = f"{self.of}." if self.of else ""
        return StoreError(f"{self.path}: {dot}{name}: {shown} is not {wanted}")

    def whole(self, name: str) -> int:
        value = self.value.get(name)
        if type(value) is not int or not 0 <= value < _MOST:
            raise self.refuse(name, "a whole number, 0 or more")
        return value

    def text(self, name: str, form: re.Pattern[str] | None = None, wanted: str = "a text") -> str:
        value = self.value.get(name)
        if not isinstance(value, str) or (form is not None and not form.fullmatch(value)):
            raise self.refuse(name, wanted)
        return value

    def span(self, name: str) -> Span:
        (found,) = self._spans(name, [self.value.get(name)])
        return found

    def spans(self, name: str) -> tuple[Span, ...]:
        return self._spans(name, self.value.get(name, []))

    def _spans(self, name: str, values: Any) -> tuple[Span, ...]:
        found = []
        for each in values if isinstance(values, list) else [None]:
            pair = each if isinstance(each, list) else []
            if list(map(type, pair)) != [int, int] or not 0 <= pair[0] <= pair[1] < _MOST:
                raise self.refuse(name, "[from, to]")
            found.append((pair[0], pair[1]))
        return tuple(found)

    def texts(self, name: str) -> tuple[str, ...]:
        value = self.value.get(name, [])
        if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
            raise self.refuse(name, "a list of texts")
        return tuple(value)

    def rows(self, name: str) -> tuple[tuple[Any, ...], ...]:
        value = self.value.get(name, [])
        value = value if isinstance(value, list) else [None]
        form = [str, *[int] * 7]
        rows = [each if isinstance(each, list) else [] for each in value]
        if any(list(map(type, each)) != form for each in rows):
            raise self.refuse(name, "a list of [topic, queueId, six numbers]")
        return tuple(map(tuple, rows))

    def objects(self, name: str) -> "Iterator[_Fields]":
        value = self.value.get(name)
        if not isinstance(value, list):
            raise self.refuse(name, "a list")
        for number, each in enumerate(value):
            yield _Fields(each, self.path, f"{name}[{number}]")

    def inner(self, name: str) -> "_Fields":
        return _Fields(self.value.get(name), self.path, f"{self.of}.{name}" if self.of else name)

    def has(self, name: str) -> bool:
        return self.value.get(name) is not None


def parse_object(raw: bytes, path: str) -> dict[str, Any]:
    """A JSON object of the repository. Raises StoreError, also for another format's."""
    try:
        value = json.loads(raw)
    except (ValueError, RecursionError) as error:
        raise StoreError(f"{path}: is not JSON: {error}") from None
    found = value.get("format") if isinstance(value, dict) else None
    if found != FORMAT:
        raise StoreError(
            f"{path}: format is {json.dumps(found)[:80]}, but this version of reput reads {FORMAT}"
        )
    assert isinstance(value, dict)
    return value


def parse_run(raw: bytes, path: str, run: int) -> Run | Forget:
    """The run or forget of a file. Raises StoreError that names file, field, value and reason."""
    fields = _Fields(parse_object(raw, path), path)
    if fields.whole("run") != run:
        raise fields.refuse("run", f"the number in the file's name, {run}")
    kind = fields.text("kind", re.compile("backup|forget"), '"backup" or "forget"')
    return _forget(fields) if kind == "forget" else _run(fields)


def _run(fields: _Fields) -> Run:
    number = fields.whole("run")
    parent = fields.whole("parent") if fields.has("parent") else None
    if parent is not None and not 0 < parent < number:
        raise fields.refuse("parent", "a run before this one")
    first, begin, end = (fields.whole(name) for name in ("first", "from", "end"))
    begins = fields.whole("begins") if fields.has("begins") else first
    last = None
    if fields.has("last"):
        of = fields.inner("last")
        last = LastRecord(of.whole("offset"), _digest(of), of.whole("storeTimestamp"))
    branch = None
    if fields.has("branch"):
        of = fields.inner("branch")
        branch = Branch(of.whole("parent_end"), of.whole("differs_at"))
    settings = fields.inner("settings").value
    if not all(isinstance(each, str) for each in settings.values()):
        raise fields.refuse("settings", "names with texts")
    if not first <= begin <= end:
        raise fields.refuse("from", f"between first ({first}) and end ({end})")
    pieces = _pieces(fields, begin, end)
    if (pieces[-1].end if pieces else begin) != end:
        raise fields.refuse("end", "where its pieces end")
    run = Run(
        number, parent, fields.whole("started"), fields.whole("ended"), fields.text("reput"),
        fields.text("rocketmq"), settings, first, begins, begin, end, last, pieces,
        tuple(map(_state, fields.objects("state"))),
        fields.span("gap") if fields.has("gap") else None, branch, fields.texts("without"),
        fields.whole("forget") if fields.has("forget") else None, fields.rows("expired"),
    )  # fmt: skip
    known = run.as_json()
    more = {name: each for name, each in fields.value.items() if name not in known}
    return Run(**{**run.__dict__, "more": more}) if more else run


def _forget(fields: _Fields) -> Forget:
    removed = fields.value.get("removed")
    if not isinstance(removed, list) or not all(type(each) is int for each in removed):
        raise fields.refuse("removed", "a list of runs")
    kept = {}
    table = fields.inner("kept")
    for name in table.value:
        if not (name.isascii() and name.isdigit()):
            raise table.refuse(name, "named by a run's number")
        of = table.inner(name)
        first, begin = of.whole("first"), of.whole("from")
        kept[int(name)] = Kept(first, begin, _pieces(of, begin, None))
    return Forget(fields.whole("run"), fields.whole("ended"), tuple(removed), kept)


def _pieces(fields: _Fields, begin: int, end: int | None) -> tuple[Piece, ...]:
    """Pieces in order. end: they follow each other up to it; None: what a forget keeps, where each
    counts up to the next.
    """
    found, at = [], begin
    for of in fields.objects("pieces"):
        piece = Piece(
            of.whole("offset"), of.whole("length"), _digest(of), of.whole("stored"),
            of.whole("records"), of.span("times"), of.spans("damaged"),
        )  # fmt: skip
        if not 0 < piece.length <= PIECE_BYTES:
            raise of.refuse("length", f"a piece's, 1 .. {PIECE_BYTES}")
        if piece.offset < at or (end is not None and piece.offset != at):
            raise of.refuse("offset", f"where the piece before ends, {at}")
        at = piece.end if end is not None else piece.offset + 1
        found.append(piece)
    return tuple(found)


def _state(of: _Fields) -> StateEntry:
    path, mode = of.text("path"), of.whole("mode")
    seen = of.text("seen") if of.has("seen") else ""
    if not path or {"", ".", ".."} & set(path.split("/")) or re.search(r"[\0-\x1f\\]", path):
        raise of.refuse("path", "a path below the store")
    return StateEntry(path, _digest(of), of.whole("length"), mode & 0o777, seen)


def _digest(of: _Fields) -> str:
    return of.text("sha256", _HEX, "a SHA-256 in hex")
