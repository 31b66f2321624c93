"""The releases that a store's broker has had, one after the other (decision 0024).

An era is the part of the log that one release dispatched, or several of the same rules. A broker
that is upgraded goes on with the files that it finds, so each file holds what its eras made.
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from reput.store_format.release.candidates import Clue, left_by, span
from reput.store_format.release.profiles import RELEASES, profile

NEVER = (1 << 63) - 1  # no physical offset is as great


class Era(NamedTuple):
    """From which physical offset on a release dispatched; the releases that the files leave."""

    start: int
    release: str  # of those, the one whose rules are taken
    left: tuple[str, ...]


class Period(NamedTuple):
    """A part of the log, from a physical offset on, and what its derived files show of it."""

    start: int
    clues: tuple[Clue, ...]


def merged(*lists: Sequence[Period]) -> list[Period]:
    """Periods of several kinds of clues as one list: each begins where one of any kind does."""
    starts = sorted({period.start for each in lists for period in each})
    found = []
    for start in starts:
        clues: list[Clue] = []
        for each in lists:
            before = [period for period in each if period.start <= start]
            clues += before[-1].clues if before else ()
        found.append(Period(start, tuple(clues)))
    return found


def eras_of(periods: Sequence[Period], newest: str, left: Sequence[str]) -> tuple[Era, ...]:
    """The eras that periods show. newest: the release of the last one, left: those it may be.

    In an older one the newest is taken of those that may have been. Each period leaves some.
    """
    older = ((period.start, left_by(period.clues)) for period in periods[:-1])
    eras = [Era(start, releases[-1], tuple(releases)) for start, releases in older]
    return (*eras, Era(periods[-1].start, newest, tuple(left)))


def every_put_counts_up_to(eras: Sequence[Era]) -> int:
    """The physical offset up to which hashSlotCount grew with every key (up to 4.7.0)."""
    stop = 0
    for era, after in pairwise([*eras, None]):
        if era is not None and profile(era.release).count_every_put:
            stop = NEVER if after is None else after.start
    return stop


def eras_text(eras: Sequence[Era]) -> str:
    """For people, in a line; "" where there is one era alone."""
    if len(eras) < 2:
        return ""
    parts = [f"{_span(era.left)} up to offset {after.start:,}" for era, after in pairwise(eras)]
    return ", ".join([*parts, f"then {_span(eras[-1].left)}"])


def _span(left: Sequence[str]) -> str:
    if len(left) > 1 and left[-1] == RELEASES[-1]:
        return f"{left[0]} or later"
    return f"{left[-1]} or older" if left[0] == RELEASES[0] and len(left) > 1 else span(left)
