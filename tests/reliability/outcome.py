"""What a rebuild or a recovery makes of a damaged log, and in which class that falls."""

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from reput.jobs.pipeline.pipeline import Cut
from reput.jobs.rebuild import REFUSE, SALVAGE
from reput.store_format.faults import StoreError
from tests.in_process import Session, rebuild_log
from tests.reliability.inputs import Input, Small

_ENTRY = struct.Struct(">qiq")
_WHOLE = Cut(None, 2, 2)


class Class(StrEnum):
    """The worst that can be said of an outcome comes first."""

    ALL_LOST = "fails: no message is left"
    OTHERS_LOST = "messages lost that were not touched"
    WRONG = "accepted with wrong queue, keys or tags"
    NAMED_WRONG = "named, and kept as it now reads"
    LOST = "the touched message given up"
    SAME = "as if undamaged"


@dataclass(frozen=True)
class Outcome:
    """files: derived ones by path, index files as index/0, ...; reported: the damage was named."""

    messages: int
    files: Mapping[str, bytes]
    reported: bool = False
    failed: str = ""  # why there is no result at all


def ours(store: Small, given: Input | None = None) -> Outcome:
    """`reput rebuild --on-damage salvage`; any error but a StoreError goes through."""
    try:
        rebuilt = rebuild_log(store.log(given and given.segment), _WHOLE, Session(),
                              on_damage=SALVAGE)  # fmt: skip
    except StoreError as error:
        return Outcome(0, {}, True, str(error))
    said = rebuilt.summary
    assert said.damage is not None
    named = said.left_out or said.in_no_queue or said.warnings
    return Outcome(said.messages, rebuilt.files, bool(said.damage["range_count"] or named))


def refuse(store: Small, given: Input) -> str:
    """`reput rebuild`: what it says of the damage, "" if nothing."""
    try:
        summary = rebuild_log(store.log(given.segment), _WHOLE, Session(), on_damage=REFUSE).summary
    except StoreError as error:
        return str(error)
    return "; ".join([*summary.warnings, *summary.left_out, *summary.in_no_queue])


def classify(store: Small, sound: Outcome, outcome: Outcome, number: int) -> Class:
    """The class of an outcome of which message `number` was touched."""
    if outcome.failed or not outcome.messages:
        return Class.ALL_LOST
    if not _entries_of_others(sound, store.places[number]) <= _entries(outcome):
        return Class.OTHERS_LOST
    if outcome.messages < sound.messages:
        return Class.LOST
    if _content(outcome) == _content(sound):
        return Class.SAME
    return Class.NAMED_WRONG if outcome.reported else Class.WRONG


def _content(outcome: Outcome) -> dict[str, bytes]:
    """Unused tails and files that hold nothing do not count."""
    stripped = {path: content.rstrip(b"\0") for path, content in outcome.files.items()}
    return {path: content for path, content in stripped.items() if content}


def _entries(outcome: Outcome) -> set[tuple[str, int]]:
    """(queue, physical offset) of each entry."""
    found = set()
    for path, content in outcome.files.items():
        queue, _, _ = path.rpartition("/")
        if queue.startswith("consumequeue/"):
            for at in range(0, len(content) - _ENTRY.size + 1, _ENTRY.size):
                place, size, _ = _ENTRY.unpack_from(content, at)
                if 0 < size < 0x7FFFFFFF:
                    found.add((queue, place))
    return found


def _entries_of_others(sound: Outcome, place: int) -> set[tuple[str, int]]:
    return {entry for entry in _entries(sound) if entry[1] != place}
