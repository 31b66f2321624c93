"""Logs in memory, as the tasks of a source or of an export read them."""

from typing import Any

from reput.store_format.dispatch.scan import scan_rules
from reput.store_format.files.protocol import FileState
from reput.store_format.log.segments import Segment
from reput.store_format.release.profiles import profile
from reput.store_format.release.settings import settings_from
from reput.udfs.table.log_parts import LogPart, LogParts
from tests.logs.encoder import Message, build_log
from tests.memory_storage import MemoryStorage


def log_of(
    messages: list[Message], segment: int = 1 << 14, version: str = "5.3.3", kind: Any = LogParts,
    **more: Any,
) -> Any:  # fmt: skip
    """A LogParts, or another `kind` of it."""
    files = {f"log/{start}": raw for start, raw in build_log(messages, segment).items()}
    segments = tuple(Segment(path, int(path[4:]), FileState(segment, 0, 0)) for path in files)
    rules = scan_rules(profile(version), settings_from({}), ())
    return kind(MemoryStorage(files), segments, rules, **more)


def part(
    log: LogParts, number: int = 0, start: int | None = None, stop: int | None = None
) -> LogPart:
    """A part of a segment, by default all of it."""
    segment = log.segments[number]
    begin = segment.start if start is None else start
    return LogPart(number, segment.start, begin, segment.end if stop is None else stop)
