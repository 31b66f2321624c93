"""Which releases may have written a store's files, if nobody says which one did.

Clues are rules that only some releases follow, seen in the store. If all remaining releases derive
the same files, any of them will do. Otherwise the user is asked, and sees what differs.
"""

from collections.abc import Sequence
from typing import NamedTuple

from reput.store_format.release.profiles import RELEASES, profile, release_key

# The rules that decide bytes of queues and index of a sound log. The other rules do not: a broker
# writes its checkpoint anew at its next flush; only logs of new releases have IPv6 hosts and long
# topics at all; and most rules only matter to a store that has what they are about.
_ALWAYS = ("count_every_put", "index_tags")
_ODD_POSITIONS = ("skip_lower_offsets", "skip_by_end")
_MALFORMED = ("split_properties",)
_NO_KEYS = ("empty_index_count",)
_MULTI_DISPATCH = (
    "multi_dispatch", "multi_dispatch_skips_retry", "multi_dispatch_skips_slash",
    "multi_dispatch_skips_delays", "multi_dispatch_skips_system",
)  # fmt: skip
# The rules that decide the content of a new record, and which records a service makes. The last 02
# of a property text and the form of config/ do not matter, as all releases read both forms, nor
# does `__CRC32#`, which nobody writes unless asked to.
_NEW_RECORDS = (
    "half_topic", "timer_messages", "commit_keeps_place", "op_message_lists",
    "property_map_capacity", "batch_queues",
)  # fmt: skip


class Clue(NamedTuple):
    """What was seen, and the first and last release that does this; '' for no limit."""

    seen: str
    since: str = ""
    until: str = ""


def left_by(clues: Sequence[Clue]) -> list[str]:
    """The releases that all clues allow, oldest first; none if clues contradict each other."""
    first = max((release_key(clue.since) for clue in clues if clue.since), default=(0,))
    last = min((release_key(clue.until) for clue in clues if clue.until), default=(99,))
    return [release for release in RELEASES if first <= release_key(release) <= last]


class Has(NamedTuple):
    """Which content a store has that releases treat differently."""

    multi_dispatch: bool = True
    index_without_keys: bool = True
    new_records: bool = False  # new records are to be written by the release's rules
    odd_positions: bool = True  # queueOffsets that do not go on by one
    malformed: bool = True  # properties not of the form `name 01 value 02`


def _rules(has: Has) -> list[str]:
    """The rules that matter for a store with this content."""
    of_each = (
        (True, _ALWAYS), (has.odd_positions, _ODD_POSITIONS), (has.malformed, _MALFORMED),
        (has.multi_dispatch, _MULTI_DISPATCH), (has.index_without_keys, _NO_KEYS),
        (has.new_records, _NEW_RECORDS),
    )  # fmt: skip
    return [rule for counts, rules in of_each if counts for rule in rules]


def groups(releases: Sequence[str], has: Has) -> list[list[str]]:
    """The releases, grouped with those that derive the same files."""
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
    """The rules that matter and in which the first and the last of these releases differ."""
    old, new = profile(releases[0]), profile(releases[-1])
    return {rule for rule in _rules(has) if getattr(old, rule) != getattr(new, rule)}


def span(releases: Sequence[str]) -> str:
    """Neighbouring releases as a text."""
    if len(releases) == 1:
        return releases[0]
    return f"{releases[0]} to {releases[-1]}"
