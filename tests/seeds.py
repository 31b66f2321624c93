"""The seeds of tests that explore: random logs, kills, damage, input for parsers.

Such a test has fixed seeds, with which it holds a promise like any other. REPUT_SEED=N has it take
that one seed alone: `make explore` does so with ever new ones (tests/ledger), and the
same line repeats a failure. With `--hypothesis-seed=N` drawn examples are the same again too."""

import os
from collections.abc import Iterable, Sequence
from itertools import product
from typing import Any

import pytest

GIVEN = int(os.environ["REPUT_SEED"]) if os.environ.get("REPUT_SEED") else None
_EXAMPLES = 200  # of a round: a minute or so


def seeds(fixed: Iterable[int]) -> list[Any]:
    """For `parametrize`: the fixed seeds, or the given one, by a name that does not hold it."""
    return list(fixed) if GIVEN is None else [pytest.param(GIVEN, id="seed")]


def some(fixed: Iterable[int]) -> list[int]:
    """For a loop within a test."""
    return list(fixed) if GIVEN is None else [GIVEN]


def seed(fixed: int) -> int:
    return fixed if GIVEN is None else GIVEN


def examples(fixed: int) -> int:
    """How many hypothesis draws."""
    return fixed if GIVEN is None else min(fixed, _EXAMPLES)


def spread(firsts: Sequence[Any], seconds: Sequence[Any], each: int = 1) -> list[tuple[Any, Any]]:
    """Pairs for long tests, all with REPUT_EVERY=1: every second with `each` of the firsts, which
    take turns."""
    if os.environ.get("REPUT_EVERY"):
        return list(product(firsts, seconds))
    turns = [(place + more) % len(firsts) for place in range(len(seconds)) for more in range(each)]
    return [(firsts[turn], seconds[at // each]) for at, turn in enumerate(turns)]
