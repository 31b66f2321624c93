"""Finds and checks the segments of a CommitLog, and cuts them into stretches for parallel scans."""

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from reput.store_format.faults import StoreError
from reput.store_format.files.protocol import (
    ANY_TIME,
    FileState,
    InputStorage,
    Reader,
    is_back_to_back,
)
from reput.store_format.log.record import Read
from reput.store_format.names import COMMIT_LOG, DLEDGER, DLEDGER_DATA, parse_segment_name
from reput.store_format.release.settings import Settings

_REPAIR = "`reput check` shows what is there, `reput repair` copies it for a broker"
_PATH_SEPARATOR = ","  # MixAll.MULTI_PATH_SPLITTER
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
        """Reads this segment by physical offsets."""
        return lambda offset, buffer: reader.read_into(offset - self.start, buffer)


def commit_log_folders(store: str, settings: Settings) -> list[str]:
    """The folders that hold segments: the broker's own, if its configuration names them."""
    named = ",".join((settings.store_path_commit_log, settings.read_only_commit_log_store_paths))
    folders = [folder.strip().rstrip("/") for folder in named.split(_PATH_SEPARATOR)]
    folders = list(dict.fromkeys(folder for folder in folders if folder))
    return folders if settings.store_path_commit_log else [f"{store}/{COMMIT_LOG}", *folders]


def find_segments(storage: InputStorage, folders: Sequence[str], configured: int) -> list[Segment]:
    """The segments in one or more commitlog folders, in order, checked for name, size and holes.

    configured: mappedFileSizeCommitLog. A zero-length last file is left out (MappedFileQueue
    deletes it). Raises StoreError, naming file and reason.
    """
    segments = []
    for folder in folders:
        try:
            listed = storage.list(folder)
        except FileNotFoundError:
            raise StoreError(f"{folder}: no such folder") from None
        except NotADirectoryError:
            raise StoreError(f"{folder}: is not a folder") from None
        for name, state in listed:
            path = f"{folder}/{name}"
            if state is None:
                raise StoreError(f"{path}: is not a regular file; a commitlog holds only segments")
            try:
                start = parse_segment_name(name)
            except ValueError as error:
                raise StoreError(f"{path}: {error}; move it elsewhere") from None
            segments.append(Segment(path, start, state))
    segments.sort(key=lambda segment: segment.start)
    if segments and segments[-1].state.size == 0:
        segments.pop()
    if not segments:
        raise StoreError(f"{', '.join(folders)}: no segments: the log is empty")
    if not is_back_to_back(storage):
        _check_sizes(segments, configured)
    _check_neighbours(segments, configured)
    return segments


def _missing(segments: int) -> str:
    return "1 segment is missing" if segments == 1 else f"{segments} segments are missing"


class Finding(NamedTuple):
    """What is wrong with a file or folder of a store."""

    path: str
    reason: str


class Listing(NamedTuple):
    """The segments as they are; `odd` has the indices of those with a wrong size."""

    segments: list[Segment]
    odd: frozenset[int]
    findings: list[Finding]


def list_segments(storage: InputStorage, folders: Sequence[str], configured: int) -> Listing:
    """List a log's segments; what is wrong becomes findings, what cannot be used is left out.

    Raises StoreError where there is no segment at all.
    """
    findings: list[Finding] = []
    by_start: dict[int, Segment] = {}
    any_size = is_back_to_back(storage)
    for folder in folders:
        try:
            listed = storage.list(folder)
        except FileNotFoundError:
            findings.append(Finding(folder, "no such folder"))
            continue
        except NotADirectoryError:
            findings.append(Finding(folder, "is not a folder"))
            continue
        for name, state in listed:
            path = f"{folder}/{name}"
            reason = None
            try:
                start = parse_segment_name(name)
            except ValueError as error:
                findings.append(Finding(path, f"{error}; left out"))
                continue
            if state is None:
                reason = "is not a regular file"
            elif start % configured and not any_size:
                reason = f"its name is no multiple of mappedFileSizeCommitLog {configured}"
            elif start in by_start:
                reason = f"is there twice, also as {by_start[start].path}"
            if reason or state is None:
                findings.append(Finding(path, f"{reason}; left out"))
            else:
                by_start[start] = Segment(path, start, state)
    segments = [by_start[start] for start in sorted(by_start)]
    if segments and segments[-1].state.size == 0:
        segments.pop()
    if not segments:
        raise StoreError(f"{', '.join(folders)}: no segments: the log is empty")
    wrong = (i for i, each in enumerate(segments) if each.state.size != configured)
    odd = frozenset(wrong if not any_size else ())
    findings += [
        Finding(
            segments[i].path,
            f"has {segments[i].state.size} bytes, but mappedFileSizeCommitLog is {configured}",
        )
        for i in sorted(odd)
    ]
    for before, after in pairwise(segments):
        if any_size:
            missing = int(before.end != after.start)
        else:
            missing = (after.start - before.start) // configured - 1
        if missing:
            findings.append(Finding(after.path, f"a hole before it: {_missing(missing)}"))
    return Listing(segments, odd, findings)


def _check_sizes(segments: list[Segment], configured: int) -> None:
    for segment in segments:
        if segment.state.size != configured:
            raise StoreError(
                f"{segment.path}: has {segment.state.size} bytes, but mappedFileSizeCommitLog "
                f"is {configured}; {_REPAIR}"
            )
        if segment.start % configured:
            raise StoreError(
                f"{segment.path}: its name is no multiple of mappedFileSizeCommitLog {configured}"
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
