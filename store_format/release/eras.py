"""The releases that a store's broker has had, one after the other (decision 0024).

An era is the part of the log that was dispatched by one release, or by several with the same rules.
An upgraded broker goes on with the files that it finds, so a file may have entries of several.
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from reput.store_format.release.candidates import Clue, left_by, span
from reput.store_format.release.profiles import RELEASES, profile

NEVER = (1 << 63) - 1  # no physical offset is as great


class Era(NamedTuple):
    """The log from physical offset `start` on, and the releases that the files allow."""

    start: int
    release: str  # of `left`, the release whose rules are taken
    left: tuple[str, ...]


class Period(NamedTuple):
    """A part of the log, from physical offset `start` on, and the clues in its derived files."""

    start: int
    clues: tuple[Clue, ...]


def merged(*lists: Sequence[Period]) -> list[Period]:
    """Periods of several kinds of clues as one list: each start of any kind begins a period."""
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
    """The eras that periods show; each period has to allow a release.

    newest, left: `release` and `left` of the last era. An older era gets its newest release.
    """
    older = ((period.start, left_by(period.clues)) for period in periods[:-1])
    eras = [Era(start, releases[-1], tuple(releases)) for start, releases in older]
    return (*eras, Era(periods[-1].start, newest, tuple(left)))


def every_put_counts_up_to(eras: Sequence[Era]) -> int:
    """The physical offset below which hashSlotCount grew with every key (up to 4.7.0)."""
    stop = 0
    for era, after in pairwise([*eras, None]):
        if era is not None and profile(era.release).count_every_put:
            stop = NEVER if after is None else after.start
    return stop


def eras_text(eras: Sequence[Era]) -> str:
    """The eras for people, in a line; "" for a single era."""
    if len(eras) < 2:
        return ""
    parts = [f"{_span(era.left)} up to offset {after.start:,}" for era, after in pairwise(eras)]
    return ", ".join([*parts, f"then {_span(eras[-1].left)}"])


def _span(left: Sequence[str]) -> str:
    if len(left) > 1 and left[-1] == RELEASES[-1]:
        return f"{left[0]} or later"
    return f"{left[-1]} or older" if left[0] == RELEASES[0] and len(left) > 1 else span(left)
