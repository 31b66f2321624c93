"""Which releases a store's files leave, where nobody says which one wrote them.

Clues are rules that only some releases follow, seen in the store. Where the releases that are left
derive the same files, any of them will do; where they do not, the user is asked, and sees what
differs.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from reput.store_format.release.profiles import RELEASES, profile, release_key

# The rules that decide bytes of queues and index in a log that is sound. Others are no such rules:
# a broker writes its checkpoint anew at its next flush; only logs of new releases have IPv6 hosts
# and long topics at all; and most count only where a store has what they are about.
_ALWAYS = ("count_every_put", "index_tags")
_ODD_POSITIONS = ("skip_lower_offsets", "skip_by_end")
_MALFORMED = ("split_properties",)
_NO_KEYS = ("empty_index_count",)
_MULTI_DISPATCH = (
    "multi_dispatch", "multi_dispatch_skips_retry", "multi_dispatch_skips_slash",
    "multi_dispatch_skips_delays", "multi_dispatch_skips_system",
)  # fmt: skip
# Those that decide what a new record says, and which records a service makes. A further 02 at a
# text's end and the form of config/ are no such rules, as all releases read both forms, nor is
# `__CRC32#`, which nobody writes unasked.
_NEW_RECORDS = (
    "half_topic", "timer_messages", "commit_keeps_place", "op_message_lists",
    "property_map_capacity", "batch_queues",
)  # fmt: skip


class Clue(NamedTuple):
    """What was seen, and the first and last release that does so; empty: no limit."""

    seen: str
    since: str = ""
    until: str = ""


def left_by(clues: Iterable[Clue]) -> list[str]:
    """The releases that all clues leave, oldest first; none where they contradict each other."""
    first = max((release_key(clue.since) for clue in clues if clue.since), default=(0,))
    last = min((release_key(clue.until) for clue in clues if clue.until), default=(99,))
    return [release for release in RELEASES if first <= release_key(release) <= last]


class Has(NamedTuple):
    """What a store has, as far as releases differ in it."""

    multi_dispatch: bool = True
    index_without_keys: bool = True
    new_records: bool = False  # records are to be written as that release writes them
    odd_positions: bool = True  # queueOffsets that do not go on by one
    malformed: bool = True  # properties that are no `name 01 value 02`


def _rules(has: Has) -> list[str]:
    """The rules that count for a store that has this."""
    of_each = (
        (True, _ALWAYS), (has.odd_positions, _ODD_POSITIONS), (has.malformed, _MALFORMED),
        (has.multi_dispatch, _MULTI_DISPATCH), (has.index_without_keys, _NO_KEYS),
        (has.new_records, _NEW_RECORDS),
    )  # fmt: skip
    return [rule for counts, rules in of_each if counts for rule in rules]


def groups(releases: Sequence[str], has: Has) -> list[list[str]]:
    """The releases, those together that derive the same files."""
    rules = _rules(has)
    found: list[list[str]] = []
    values: list[tuple[object, ...]] = []
    for release in releases:
        value = tuple(getattr(profile(release), rule) for rule in rules)
        if not values or values[-1] != value:
            values.append(value)
            found.append([])
        found[-1].append(release)
    return found


def same_files(one: str, other: str, has: Has) -> bool:
    """Whether two releases derive the same files from a sound log."""
    return len(groups([one, other], has)) == 1


def differing(releases: Sequence[str], has: Has) -> set[str]:
    """The rules in which the first and the last of these releases differ, as far as they count."""
    old, new = profile(releases[0]), profile(releases[-1])
    return {rule for rule in _rules(has) if getattr(old, rule) != getattr(new, rule)}


def span(releases: Sequence[str]) -> str:
    """Neighbouring releases as a text."""
    if len(releases) == 1:
        return releases[0]
    return f"{releases[0]} to {releases[-1]}"
