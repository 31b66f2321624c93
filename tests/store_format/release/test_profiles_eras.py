"""The releases that a store's broker had, one after the other, by clues in its files."""

import pytest

from reput.store_format.release.profiles import (
    NEVER,
    Clue,
    Era,
    Period,
    eras_of,
    eras_text,
    every_put_counts_up_to,
    merged,
)

OLD, NEW, TAGS = Clue("every put", until="4.7.0"), Clue("used", since="4.7.1"), Clue("t", "5.4.0")


def era(start: int, *left: str) -> Era:
    return Era(start, left[-1], left)


def test_every_start_begins_a_period_with_the_clues_so_far() -> None:
    index = [Period(0, (OLD,)), Period(500, (NEW,))]
    queues = [Period(100, (TAGS,)), Period(500, ())]
    assert merged(index, queues) == [
        Period(0, (OLD,)), Period(100, (OLD, TAGS)), Period(500, (NEW,)),
    ]  # fmt: skip
    assert merged() == merged([], []) == []


def test_an_older_era_gets_the_newest_release_that_it_allows() -> None:
    since = Clue("hosts of IPv6", since="4.6.1")
    periods = [Period(0, (OLD, since)), Period(900, (NEW,))]
    assert eras_of(periods, "5.3.3", ["5.3.2", "5.3.3"]) == (
        Era(0, "4.7.0", ("4.6.1", "4.7.0")), Era(900, "5.3.3", ("5.3.2", "5.3.3")),
    )  # fmt: skip


def test_a_single_era_is_what_the_caller_says() -> None:
    assert eras_of([Period(0, (OLD,))], "4.6.0", ["4.6.0"]) == (era(0, "4.6.0"),)


@pytest.mark.parametrize(
    ("eras", "stop"),
    [
        ([], 0),
        ([era(0, "5.3.3")], 0),
        ([era(0, "4.7.1")], 0),
        ([era(0, "4.7.0")], NEVER),
        ([era(0, "4.7.0"), era(700, "4.7.1"), era(900, "5.4.0")], 700),
        ([era(0, "4.5.2"), era(700, "4.7.0"), era(900, "4.9.8")], 900),
        ([era(0, "4.5.2"), era(700, "4.7.0")], NEVER),
    ],
)
def test_every_put_counts_up_to_the_first_era_of_4_7_1(eras: list[Era], stop: int) -> None:
    assert every_put_counts_up_to(eras) == stop


@pytest.mark.parametrize(
    ("eras", "text"),
    [
        ([], ""),
        ([era(0, "4.7.0")], ""),
        (
            [era(0, "4.1.0-incubating", "4.7.0"), era(1_234_567, "4.7.1", "5.5.1")],
            "4.7.0 or older up to offset 1,234,567, then 4.7.1 or later",
        ),
        (
            [era(0, "4.1.0-incubating"), era(70, "4.6.0", "4.7.0"), era(90, "5.5.1")],
            "4.1.0-incubating up to offset 70, 4.6.0 to 4.7.0 up to offset 90, then 5.5.1",
        ),
    ],
)
def test_eras_as_a_line(eras: list[Era], text: str) -> None:
    assert eras_text(eras) == text
