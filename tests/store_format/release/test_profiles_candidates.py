"""Which releases clues leave, and which of those derive the same files."""

import pytest

from reput.store_format.release.profiles import (
    RELEASES,
    Clue,
    Has,
    differing,
    groups,
    left_by,
    same_files,
    span,
)

NOTHING_ODD = Has(False, False, False, False, False)


@pytest.mark.parametrize(
    ("clues", "first", "last"),
    [
        ([], "4.1.0-incubating", "5.5.1"),
        ([Clue("a", since="4.7.1")], "4.7.1", "5.5.1"),
        ([Clue("a", until="4.7.0")], "4.1.0-incubating", "4.7.0"),
        (
            [Clue("a", "4.6.0"), Clue("b", "5.0.0", "5.3.3"), Clue("c", "", "5.4.0")],
            "5.0.0",
            "5.3.3",
        ),
        ([Clue("a", "4.7.0", "4.7.0")], "4.7.0", "4.7.0"),
        ([Clue("a", "4.10.0")], "5.0.0", "5.5.1"),  # numbers, not texts
    ],
)
def test_clues_leave_what_all_of_them_allow(clues: list[Clue], first: str, last: str) -> None:
    left = left_by(clues)
    assert (left[0], left[-1]) == (first, last)
    assert left == list(RELEASES[RELEASES.index(first) : RELEASES.index(last) + 1])


def test_clues_that_contradict_each_other_leave_none() -> None:
    assert left_by([Clue("a", since="5.0.0"), Clue("b", until="4.9.8")]) == []


@pytest.mark.parametrize(
    ("one", "other", "rules"),
    [
        ("4.7.0", "4.7.1", {"count_every_put"}),
        ("5.3.4", "5.4.0", {"index_tags"}),
        ("4.7.0", "5.4.0", {"count_every_put", "index_tags"}),
        ("4.7.1", "5.3.4", set()),
        ("5.4.0", "5.5.1", set()),
    ],
)
def test_two_rules_matter_to_every_store(one: str, other: str, rules: set[str]) -> None:
    assert differing([one, other], NOTHING_ODD) == rules
    assert same_files(one, other, NOTHING_ODD) == (not rules)


@pytest.mark.parametrize(
    ("content", "one", "other"),
    [
        ("odd_positions", "4.1.0", "4.2.0"),
        ("odd_positions", "4.5.0", "4.5.1"),
        ("malformed", "4.9.0", "4.9.1"),
        ("multi_dispatch", "4.9.2", "4.9.3"),
        ("multi_dispatch", "5.1.0", "5.1.1"),
        ("multi_dispatch", "5.1.1", "5.1.2"),
        ("multi_dispatch", "5.1.4", "5.2.0"),
        ("index_without_keys", "4.9.8", "5.0.0"),
        ("new_records", "4.2.0", "4.3.0"),
        ("new_records", "5.0.0", "5.1.0"),
    ],
)
def test_other_rules_matter_to_a_store_that_has_what_they_are_about(
    content: str, one: str, other: str
) -> None:
    assert same_files(one, other, NOTHING_ODD)
    assert not same_files(one, other, NOTHING_ODD._replace(**{content: True}))


def test_groups_are_of_neighbours_in_their_order() -> None:
    assert groups([], NOTHING_ODD) == []
    found = groups(["4.6.1", "4.7.0", "4.7.1", "4.9.8", "5.3.4", "5.4.0"], NOTHING_ODD)
    assert found == [["4.6.1", "4.7.0"], ["4.7.1", "4.9.8", "5.3.4"], ["5.4.0"]]


def test_a_span_is_named_by_its_ends() -> None:
    assert span(["5.3.3"]) == "5.3.3"
    assert span(["4.9.8", "5.0.0", "5.1.0"]) == "4.9.8 to 5.1.0"
