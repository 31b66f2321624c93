"""Which releases a store's files leave, where nobody says which one wrote them.

Clues are rules that only some releases follow, seen in the store. Where the releases that are left
derive the same files, any of them will do; where they do not, the user is asked, and told what
differs.
"""

from collections.abc import Iterable, Sequence
from dataclasses import fields
from itertools import pairwise
from typing import NamedTuple

from reput.store_format.release.profiles import (
    RELEASES,
    Profile,
    UnknownRelease,
    profile,
    release_key,
)

# The rules that decide bytes of queues and index in a log that is sound, and what is new in the
# release that changed them. Others are no such rules: a broker writes its checkpoint anew at its
# next flush; only logs of new releases have IPv6 hosts and long topics at all; and those of
# multi-dispatch and of an index without keys count where a store has the one or the other.
_ALWAYS = {
    "skip_lower_offsets": "a queueOffset below the queue's next position is skipped, before: kept",
    "skip_by_end": "a message counts as dispatched by where it ends, before: by where it starts",
    "count_every_put": "hashSlotCount of an index file counts the slots in use, before: all keys",
    "split_properties": "malformed properties are read in another way",
    "index_tags": "the index has one more key for a message's tags",
}
_NO_KEYS = {"empty_index_count": "an index file without entries has indexCount 1, before: 0"}
_MULTI_DISPATCH = {
    "multi_dispatch": "messages go to further queues",
    "multi_dispatch_skips_retry": "but not those of %RETRY% topics",
    "multi_dispatch_skips_slash": "nor to names with a slash",
    "multi_dispatch_skips_delays": "nor those of the schedule topic",
    "multi_dispatch_skips_system": "nor those of rmq_sys_ topics",
}


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


def _rules(has: Has) -> list[str]:
    """The rules that count for a store that has this."""
    if has.new_records:
        return [of.name for of in fields(Profile) if of.name != "release"]
    rules = [*_ALWAYS, *(_MULTI_DISPATCH if has.multi_dispatch else ())]
    return [*rules, *(_NO_KEYS if has.index_without_keys else ())]


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


def changes(older: str, newer: str, has: Has) -> list[str]:
    """What the newer release does differently, as texts, as far as it counts."""
    old, new = profile(older), profile(newer)
    every = _ALWAYS | _NO_KEYS | _MULTI_DISPATCH
    differ = [rule for rule in _rules(has) if getattr(old, rule) != getattr(new, rule)]
    return [every.get(rule, rule.replace("_", " ")) for rule in differ]


def told_release(clues: Sequence[Clue], hints: Sequence[Clue], has: Has) -> tuple[str, str]:
    """(release, how it was told). hints: what may be there, and what a release is chosen by among
    those that derive the same files.

    Raises UnknownRelease where more than one is left: it lists them and what differs.
    """
    releases = left_by(clues)
    seen = "; ".join(dict.fromkeys(clue.seen for clue in clues))
    if not releases:
        raise UnknownRelease(
            f"--rocketmq VERSION is missing, and what the store's files show fits no single "
            f"release: {seen}"
        )
    grouped = groups(releases, has)
    if len(grouped) > 1:
        raise UnknownRelease(
            f"--rocketmq VERSION is missing: the bytes depend on it, and the store's files do not "
            f"tell it ({seen or 'they show nothing'}); it is one of: {_candidates(grouped, has)}"
        )
    chosen = releases[-1]
    for release in reversed(releases):
        if all(release in left_by([hint]) for hint in hints):
            chosen = release
            break
    return chosen, f"{span(releases)} write the same: {seen}" if len(releases) > 1 else seen


def _candidates(grouped: Sequence[Sequence[str]], has: Has) -> str:
    texts = [span(grouped[0])]
    for before, group in pairwise(grouped):
        texts.append(f"{span(group)} ({', '.join(changes(before[-1], group[0], has))})")
    return "; ".join(texts)


def span(releases: Sequence[str]) -> str:
    """Neighbouring releases as a text."""
    if len(releases) == 1:
        return releases[0]
    return f"{releases[0]} to {releases[-1]}"
