"""Finds and checks the segments of a CommitLog, and cuts them into stretches for parallel scans."""

import os
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import closing
from itertools import groupby, pairwise
from typing import Any, NamedTuple

import numpy as np

from reput.store_format.faults import EmptyLog, StoreError
from reput.store_format.files.local import LocalReader
from reput.store_format.files.protocol import ANY_TIME, FileState, InputStorage, Reader, is_folder
from reput.store_format.layouts import MAGIC_V1, MAGIC_V2, RECORD_FIXED_BYTES, RECORD_HEAD
from reput.store_format.log.record import Bytes, Read
from reput.store_format.names import COMMIT_LOG, DLEDGER, DLEDGER_DATA, segment_name, segment_start
from reput.store_format.release.settings import Settings

_REPAIR = "`reput check` shows what is there, `reput repair` copies it for a broker"
_PATH_SEPARATOR = ","  # MixAll.MULTI_PATH_SPLITTER
_NO_FILE = "is not a regular file, nor a link to one"
FIND_FIRST = -1  # Stretch.first where the scan has to look for the first record


def is_dledger(parts: list[str]) -> bool:
    """Whether the file with this path is in the log of a DLedger group (see log/groups)."""
    return parts[-2:-1] == [DLEDGER_DATA] and "".join(parts[-3:-2]).startswith(DLEDGER)


class Segment(NamedTuple):
    """One CommitLog file: its path, its first physical offset, and its state when it was listed."""

    path: str
    start: int
    state: FileState

    @property
    def has_heads(self) -> bool:
        """Whether it is of a DLedger group's log, in dledger-<id>/data (see log/groups)."""
        return is_dledger(self.path.split("/"))

    @property
    def end(self) -> int:
        return self.start + self.state.size

    def read_by(self, reader: Reader) -> Read:
        read: Any = ReadBy(reader, self.start)
        return read  # type: ignore[no-any-return]


class ReadBy(NamedTuple):
    """Reads a segment, which begins at `start`, by physical offsets."""

    reader: Reader
    start: int

    def __call__(self, offset: int, buffer: Bytes) -> None:
        self.reader.read_into(offset - self.start, buffer)

    def data_from(self, offset: int) -> int:
        """Where data may go on: before that are only zeros. A file of this machine knows."""
        if isinstance(self.reader, LocalReader):
            return self.start + self.reader.data_from(offset - self.start)
        return offset


def commit_log_folders(store: str, settings: Settings) -> list[str]:
    """The folders that hold segments: the broker's own, if its configuration names them.

    STORE/commitlog has that path however it is named: relative, or through a link.
    """
    named = ",".join((settings.store_path_commit_log, settings.read_only_commit_log_store_paths))
    own = f"{store}/{COMMIT_LOG}"
    really = os.path.realpath(own)
    folders = [folder.strip().rstrip("/") for folder in named.split(_PATH_SEPARATOR)]
    folders = [
        own if os.path.realpath(folder) == really else folder for folder in folders if folder
    ]
    return list(dict.fromkeys(folders if settings.store_path_commit_log else [own, *folders]))


def find_segments(storage: InputStorage, folders: Sequence[str], configured: int) -> list[Segment]:
    """The segments in one or more commitlog folders, in order, checked for name, size and holes.

    configured: mappedFileSizeCommitLog. A zero-length last file is left out (MappedFileQueue
    deletes it), and so is what has no segment's name (log/there names it), unless it holds what
    the log lacks. Raises StoreError, naming file and reason.
    """
    segments, others = [], []
    for path, start, state in _in_folders(storage, folders):
        if isinstance(path, Finding):
            raise StoreError(f"{path.path}: {path.reason}")
        if start is None:
            others.append((path, state))
        elif state is None:
            raise StoreError(f"{path}: {_NO_FILE}; put what it leads to in its place")
        else:
            segments.append(Segment(path, start, state))
    segments = _without_empty_twins(storage, segments)[0]
    if segments and segments[-1].state.size == 0:
        segments.pop()
    if not segments:
        raise EmptyLog(_no_segments(folders))
    for finding in _hidden(storage, others, {each.start for each in segments}, configured):
        raise StoreError(f"{finding.path}: {finding.reason}")
    if not storage.back_to_back:
        _check_sizes(segments, configured)
    _check_neighbours(segments, configured)
    return segments


def _no_segments(folders: Sequence[str]) -> str:
    return f"{', '.join(folders)}: no segments: the log is empty"


def _missing(segments: int) -> str:
    return "1 segment is missing" if segments == 1 else f"{segments} segments are missing"


class Finding(NamedTuple):
    """What is wrong with a file or folder of a store."""

    path: str
    reason: str
    left_out: bool = False  # a file that may hold messages, none of which is read
    todo: str = ""  # what a person does about it, where that is known


class Listing(NamedTuple):
    """The segments as they are; `odd` has the indices of those with a wrong size."""

    segments: list[Segment]
    odd: frozenset[int]
    findings: list[Finding]


def list_segments(storage: InputStorage, folders: Sequence[str], configured: int) -> Listing:
    """List a log's segments; what is wrong becomes findings, what cannot be used is left out.

    A file whose name no segment can have is the segment that its records prove, if there is no
    other. Raises StoreError where there is no segment at all.
    """
    findings: list[Finding] = []
    named: list[Segment] = []
    misnamed: list[Segment] = []
    others: list[tuple[str, FileState | None]] = []
    any_size = storage.back_to_back
    for path, start, state in _in_folders(storage, folders):
        if isinstance(path, Finding):
            findings.append(path)
        elif start is None:
            others.append((path, state))
        elif state is None:
            todo = f"put what {path} leads to in its place, while no broker runs"
            findings.append(Finding(path, f"{_NO_FILE}; left out", True, todo))
        elif start % configured and not any_size:
            misnamed.append(Segment(path, start, state))
        else:
            named.append(Segment(path, start, state))
    by_start: dict[int, Segment] = {}
    named, empty = _without_empty_twins(storage, named)
    findings += empty
    for each in named:
        if each.start in by_start:
            reason = f"is there twice, also as {by_start[each.start].path}; left out"
            findings.append(Finding(each.path, reason, True))
        else:
            by_start[each.start] = each
    for each in misnamed:
        findings.append(_by_its_records(storage, each, by_start, configured))
    findings += _hidden(storage, others, by_start, configured)
    segments = [by_start[start] for start in sorted(by_start)]
    if segments and segments[-1].state.size == 0:
        segments.pop()
    if not segments:
        absent = [f"{each.path}: {each.reason}" for each in findings if each.path in folders]
        absent += [f"{each.path}: {_wrong_size(each, configured)}" for each in misnamed]
        raise StoreError(absent[0]) if absent else EmptyLog(_no_segments(folders))
    wrong = (i for i, each in enumerate(segments) if each.state.size != configured)
    odd = frozenset(wrong if not any_size else ())
    findings += [
        Finding(segments[i].path, _wrong_size(segments[i], configured)) for i in sorted(odd)
    ]
    for before, after in pairwise(segments):
        if any_size:
            missing = int(before.end != after.start)
        else:
            missing = (after.start - before.start) // configured - 1
        if missing:
            findings.append(Finding(after.path, f"a hole before it: {_missing(missing)}"))
    return Listing(segments, odd, findings)


def _in_folders(
    storage: InputStorage, folders: Sequence[str]
) -> Iterator[tuple[str | Finding, int | None, FileState | None]]:
    """(path, the offset in its name, its state) of all in these folders; the offset is None where
    the name is no segment's. A Finding in place of the path: what is wrong with a folder. A segment
    that is a link has the path of the file that it leads to, as a broker reads that.
    """
    for folder in folders:
        try:
            there = storage.list(folder)
        except FileNotFoundError:
            yield Finding(folder, "no such folder"), None, None
            continue
        except NotADirectoryError:
            yield Finding(folder, "is not a folder"), None, None
            continue
        for name, state in there:
            path, start = f"{folder}/{name}", segment_start(name)
            if state is None and start is not None and not is_dledger(path.split("/")):
                path, state = storage.follow(path)
                start = None if state is None and is_folder(storage, path) else start
            yield path, start, state


def _without_empty_twins(
    storage: InputStorage, segments: Iterable[Segment]
) -> tuple[list[Segment], list[Finding]]:
    """The segments in order, less those without a record that have a twin in another folder.

    AllocateMappedFileService prepares a file in one path, and where that disk fills up before it is
    used, MultiPathMappedFileQueue makes a file of the same name in another.
    """
    kept: list[Segment] = []
    findings = []
    for _, group in groupby(sorted(segments, key=lambda each: (each.start, each.path)), _start):
        twins = list(group)
        used = twins
        if len(twins) > 1:
            used = [each for each in twins if _is_written(storage, each)] or twins
        kept += used
        findings += [
            Finding(
                each.path,
                f"is there twice, and holds nothing, where {used[0].path} does; left out",
                todo=f"remove {each.path}, while no broker runs",
            )
            for each in twins
            if each not in used
        ]
    return kept, findings


def _start(segment: Segment) -> int:
    return segment.start


def _is_written(storage: InputStorage, segment: Segment) -> bool:
    """Whether a segment begins with anything but zeros."""
    raw = np.zeros(min(RECORD_HEAD.itemsize, segment.state.size), np.uint8)
    with closing(storage.open(segment.path, segment.state)) as reader:
        reader.read_into(0, raw)
    return bool(raw.any())


def _by_its_records(
    storage: InputStorage, segment: Segment, by_start: dict[int, Segment], configured: int
) -> Finding:
    """Add a segment whose name cannot be right at the place that its records prove."""
    reason = f"its name is no multiple of mappedFileSizeCommitLog {configured}"
    start = begins_at(storage, segment, configured)
    if start is None:
        return Finding(segment.path, f"{reason}; left out", segment.state.size > 0)
    if start in by_start:
        reason += f"; by its records it is segment {by_start[start].path}, which is there; left out"
        return Finding(segment.path, reason, True)
    by_start[start] = segment._replace(start=start)
    reason += f"; by its records it is segment {segment_name(start)}, and is read as that"
    return Finding(segment.path, reason, todo=rename_text(segment.path, start))


def _hidden(
    storage: InputStorage, others: Iterable[tuple[str, FileState | None]],
    starts: Collection[int], configured: int,
) -> Iterator[Finding]:  # fmt: skip
    """Findings of files with other names that hold a segment which the log lacks.

    starts: of the segments that it has. A copy of an expired segment is nothing that it lacks.
    """
    for path, state in others:
        if state is None or storage.back_to_back:
            continue
        start = begins_at(storage, Segment(path, 0, state), configured)
        if start is None or start in starts or start < min(starts, default=0):
            continue
        reason = f"is no segment's name, but by its records it is segment {segment_name(start)}"
        left_out = f"{reason}, which the log lacks; left out"
        yield Finding(path, left_out, True, rename_text(path, start))


def rename_text(path: str, start: int) -> str:
    """What a person does about a file that is the segment `start`."""
    return f"give {path} the name {segment_name(start)}, while no broker runs"


_AGREED_BY = 2  # records that must agree on where a file begins


def begins_at(storage: InputStorage, segment: Segment, segment_bytes: int) -> int | None:
    """Where a file begins by the physicalOffsets of its first two records; None where they are no
    records, or disagree. Raises what opening and reading it raises.
    """
    at, said = 0, set()
    with closing(storage.open(segment.path, segment.state)) as reader:
        for _ in range(_AGREED_BY):
            raw = np.zeros(RECORD_HEAD.itemsize, np.uint8)
            if at + len(raw) > segment.state.size:
                return None
            reader.read_into(at, raw)
            head = np.frombuffer(raw, RECORD_HEAD)[0]
            size = int(head["totalSize"])
            if head["magic"] not in (MAGIC_V1, MAGIC_V2) or size < RECORD_FIXED_BYTES:
                return None
            said.add(int(head["physicalOffset"]) - at)
            at += size
    start = said.pop()
    return start if not said and start >= 0 and start % segment_bytes == 0 else None


def _wrong_size(segment: Segment, configured: int) -> str:
    return f"has {segment.state.size} bytes, but mappedFileSizeCommitLog is {configured}"


def _check_sizes(segments: list[Segment], configured: int) -> None:
    for segment in segments:
        if segment.state.size != configured:
            raise StoreError(f"{segment.path}: {_wrong_size(segment, configured)}; {_REPAIR}")
        if segment.start % configured:
            raise StoreError(
                f"{segment.path}: its name is no multiple of mappedFileSizeCommitLog {configured}; "
                f"{_REPAIR}"
            )


def _check_neighbours(segments: list[Segment], configured: int) -> None:
    for before, after in pairwise(segments):
        if before.start == after.start:
            raise StoreError(f"{after.path}: is there twice, also as {before.path}")
        if before.end != after.start:
            raise StoreError(
                f"{after.path}: a hole before it; {before.path} ends at {before.end}, so "
                f"{_missing(max((after.start - before.end) // configured, 1))}; {_REPAIR}"
            )


class Stretch(NamedTuple):
    """A part of one segment, in physical offsets."""

    segment: int  # where the segment starts
    segment_end: int
    start: int  # where the stretch starts
    end: int
    first: int  # its first record if that is known, else FIND_FIRST


class Splits(NamedTuple):
    """A log cut into stretches of at most `split_bytes`, numbered from 0.

    A stretch is computed from its number and no list is held, so there may be any number of them.
    limit: a physical offset at which a record starts or the log ends; the stretches end there.
    """

    segments: list[Segment]
    split_bytes: int
    segment_bytes: int  # of each segment: mappedFileSizeCommitLog
    limit: int | None = None

    @property
    def in_segment(self) -> int:
        return -(-self.segment_bytes // self.split_bytes)

    @property
    def total(self) -> int:
        if self.limit is None:
            return len(self.segments) * self.in_segment
        number = sum(segment.start <= self.limit for segment in self.segments) - 1
        rest = min(self.limit - self.segments[number].start, self.segment_bytes)
        return max(number * self.in_segment + -(-rest // self.split_bytes), 1)

    def segment(self, number: int) -> Segment:
        return self.segments[number // self.in_segment]

    def stretch(self, number: int, first: int | None = None) -> Stretch:
        """Stretch `number`; `first` is its first record where that is known."""
        segment = self.segment(number)
        start = segment.start + number % self.in_segment * self.split_bytes
        end = min(start + self.split_bytes, segment.end)
        if self.limit is not None:
            end = min(end, max(self.limit, start))
        if first is None:
            first = start if start == segment.start else FIND_FIRST
        return Stretch(segment.start, segment.end, start, end, first)


def may_grow(segments: list[Segment], end: int) -> list[Segment]:
    """The segments; those that end after `end` may have any mtime from now on.

    A broker may still write to them, and the job must not take them for other files then.
    """
    return [
        s._replace(state=s.state._replace(mtime=ANY_TIME)) if s.end > end else s for s in segments
    ]
