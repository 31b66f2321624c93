"""The objects of a repository's catalogue, to and from JSON: a run, the pieces of the log and
the other files that it names, and a forget (docs/formats/repository.md).

Each field is checked as it is read: anybody may have edited a file.
"""

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from reput.store_format.faults import StoreError

FORMAT = "reput-repository-1"
PIECE_BYTES = 64 << 20  # of a piece, at most
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
        return {**self.more, "format": FORMAT, "kind": "backup", **_fields(vars(self))}


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
        return {"format": FORMAT, "kind": "forget", **_fields(vars(self))}


_NAMES = {"begin": "from", "timestamp": "storeTimestamp"}  # of fields in JSON, where they differ


def _fields(values: Mapping[str, Any]) -> dict[str, Any]:
    return {_NAMES.get(name, name): _plain(each) for name, each in values.items() if name != "more"}


def _plain(value: Any) -> Any:
    """A field's value as JSON has it."""
    if isinstance(value, Mapping):
        return {str(name): _plain(each) for name, each in value.items()}
    if not isinstance(value, tuple):
        return value
    named = getattr(value, "_asdict", None)
    return _fields(named()) if named else list(map(_plain, value))


class Check(NamedTuple):
    """What a check found. pieces: SHA-256 by name, of whole ones; runs: verdict by number."""

    checked: int
    runs: Mapping[str, str]
    pieces: Mapping[str, str]


def as_bytes(value: Mapping[str, Any]) -> bytes:
    """An object of the repository as its file has it."""
    return json.dumps(value, ensure_ascii=False).encode() + b"\n"


# ---
# From JSON: each field is checked, as anybody may have edited it.

Rule = Callable[[Any], Any]  # gives what a value stands for; raises _Wrong


class _Wrong(Exception):
    """A value that is not what is expected there. at: its field, from the whole on."""

    def __init__(self, value: Any, wanted: str, at: str = "") -> None:
        self.value, self.wanted, self.at = value, wanted, at


def _at(name: str, check: Rule, value: Any) -> Any:
    try:
        return check(value)
    except _Wrong as wrong:
        dot = "." if wrong.at and not wrong.at.startswith("[") else ""
        raise _Wrong(wrong.value, wrong.wanted, f"{name}{dot}{wrong.at}") from None


def _is(right: Callable[[Any], Any], wanted: str) -> Rule:
    def check(value: Any) -> Any:
        if not right(value):
            raise _Wrong(value, wanted)
        return tuple(value) if isinstance(value, list) else value

    return check


def _or(default: Any, check: Rule) -> Rule:
    return lambda value: default if value is None else check(value)


def _list(each: Rule) -> Rule:
    values = _is(lambda value: isinstance(value, list), "a list")
    return lambda value: tuple(_at(f"[{n}]", each, one) for n, one in enumerate(values(value)))


def _object(make: Callable[..., Any], **of: Rule) -> Rule:
    return lambda value: make(
        *(_at(name, check, _table(value).get(name)) for name, check in of.items())
    )


def _types(value: Any) -> list[type]:
    return list(map(type, value)) if isinstance(value, list) else []


def _has_form(form: str) -> Callable[[Any], Any]:
    return lambda value: isinstance(value, str) and re.fullmatch(form, value, re.ASCII)


_whole = _is(lambda n: type(n) is int and 0 <= n < _MOST, "a whole number, 0 or more")
_table = _is(lambda value: isinstance(value, dict), "a JSON object")
_text = _is(lambda value: isinstance(value, str), "a text")
_digest = _is(_has_form("[0-9a-f]{64}"), "a SHA-256 in hex")
_span = _is(lambda a: _types(a) == [int, int] and 0 <= a[0] <= a[1] < _MOST, "[from, to]")
_length = _is(lambda n: type(n) is int and 0 < n <= PIECE_BYTES, f"a piece's, 1 .. {PIECE_BYTES}")
_path = _is(_has_form(r"(?!(.*/)?\.{0,2}(/|$))[^\0-\x1f\\]+"), "a path below the store")
_row = _is(lambda row: _types(row) == [str, *[int] * 7], "[topic, queueId, six numbers]")
_texts = _is(
    lambda value: isinstance(value, dict) and all(isinstance(each, str) for each in value.values()),
    "names with texts",
)
_pieces = _list(_object(
    Piece, offset=_whole, length=_length, sha256=_digest, stored=_whole, records=_whole,
    times=_span, damaged=_or((), _list(_span)),
))  # fmt: skip
_state = _list(_object(
    StateEntry, path=_path, sha256=_digest, length=_whole, mode=lambda mode: _whole(mode) & 0o777,
    seen=_or("", _text),
))  # fmt: skip
_RUN = {
    "run": _whole, "parent": _or(None, _whole), "started": _whole, "ended": _whole,
    "reput": _text, "rocketmq": _text, "settings": _texts, "first": _whole,
    "begins": _or(None, _whole), "from": _whole, "end": _whole,
    "last": _or(None, _object(LastRecord, offset=_whole, sha256=_digest, storeTimestamp=_whole)),
    "pieces": _pieces, "state": _state, "gap": _or(None, _span),
    "branch": _or(None, _object(Branch, parent_end=_whole, differs_at=_whole)),
    "without": _or((), _list(_text)), "forget": _or(None, _whole), "expired": _or((), _list(_row)),
}  # fmt: skip


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
    found: Run | Forget = _parsed(raw, path, lambda whole: _run_or_forget(whole, run))
    return found


def parse_check(raw: bytes, path: str) -> Check:
    """What a file says that a check found. Raises as `parse_run` does."""
    found: Check = _parsed(raw, path, _object(Check, checked=_whole, runs=_texts, pieces=_texts))
    return found


def _parsed(raw: bytes, path: str, rule: Rule) -> Any:
    try:
        return rule(parse_object(raw, path))
    except _Wrong as wrong:
        shown = json.dumps(wrong.value)[:80]
        raise StoreError(f"{path}: {wrong.at}: {shown} is not {wrong.wanted}") from None


def _run_or_forget(whole: dict[str, Any], run: int) -> Run | Forget:
    kind = whole.get("kind")
    if _at("run", _whole, whole.get("run")) != run:
        raise _Wrong(whole["run"], f"the number in the file's name, {run}", "run")
    if kind not in ("backup", "forget"):
        raise _Wrong(kind, '"backup" or "forget"', "kind")
    return _run(whole) if kind == "backup" else _forget(whole)


def _run(whole: dict[str, Any]) -> Run:
    found = {name: _at(name, check, whole.get(name)) for name, check in _RUN.items()}
    begin, end, parent = found.pop("from"), found["end"], found["parent"]
    if parent is not None and not 0 < parent < found["run"]:
        raise _Wrong(parent, "a run before this one", "parent")
    if not found["first"] <= begin <= end:
        raise _Wrong(begin, f"between first ({found['first']}) and end ({end})", "from")
    if _end_of(found["pieces"], begin, follow=True) != end:
        raise _Wrong(end, "where its pieces end", "end")
    if found["begins"] is None:
        found["begins"] = found["first"]
    more = {name: each for name, each in whole.items() if name not in (*_RUN, "format", "kind")}
    return Run(**found, begin=begin, more=more)


def _forget(whole: dict[str, Any]) -> Forget:
    removed = whole.get("removed")
    if not isinstance(removed, list) or set(_types(removed)) - {int}:
        raise _Wrong(removed, "a list of runs", "removed")
    kept: dict[int, Kept] = {}
    for name, each in _at("kept", _table, whole.get("kept")).items():
        if not _has_form(r"\d{1,8}")(name):
            raise _Wrong(each, "named by a run's number", f"kept.{name}")
        kept[int(name)] = _at(f"kept.{name}", _kept, each)
    return Forget(whole["run"], _at("ended", _whole, whole.get("ended")), tuple(removed), kept)


def _kept(value: Any) -> Kept:
    found: Kept = _object(Kept, **{"first": _whole, "from": _whole, "pieces": _pieces})(value)
    _end_of(found.pieces, found.begin, follow=False)
    return found


def _end_of(pieces: tuple[Piece, ...], begin: int, follow: bool) -> int:
    """Where pieces in order end. follow: each begins where the one before it ends; otherwise they
    are what a forget keeps, where each counts up to the next.
    """
    at = begin
    for number, piece in enumerate(pieces):
        if piece.offset < at or (follow and piece.offset != at):
            wanted = f"where the piece before ends, {at}"
            raise _Wrong(piece.offset, wanted, f"pieces[{number}].offset")
        at = piece.end if follow else piece.offset + 1
    return at
