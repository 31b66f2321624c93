"""Which release wrote a store last: one that all clues allow, or else the user is asked."""

import re

import pytest

from reput.store_format.discover.release import ReleaseFound, release_found
from reput.store_format.release.profiles import Clue, Has, UnknownRelease

PLAIN = Has(False, False, odd_positions=False, malformed=False)
# Has as a store is read before its log is looked at
UNREAD = Has(False, False)
SINCE_500, UNTIL_534 = Clue("a", "5.0.0"), Clue("b", "", "5.3.4")


def asked(clues: list[Clue], hints: list[Clue], has: Has) -> str:
    with pytest.raises(UnknownRelease) as refused:
        release_found(clues, hints, has)
    return str(refused.value)


def test_the_only_release_that_the_clues_allow() -> None:
    found = release_found([Clue("a", "5.3.3"), Clue("b", "", "5.3.3"), Clue("a", "")], [], PLAIN)
    assert found == ReleaseFound("5.3.3", "a; b", (), "5.3.3")


def test_of_releases_that_write_the_same_the_newest() -> None:
    found = release_found([SINCE_500, UNTIL_534], [], PLAIN)
    assert found == ReleaseFound("5.3.4", "5.0.0 to 5.3.4 write the same: a; b", (), found.alike)
    assert found.alike == "5.0.0 to 5.3.4"


def test_unless_a_hint_points_to_an_older_one() -> None:
    hint = Clue("h", "", "5.1.0")
    assert release_found([SINCE_500, UNTIL_534], [hint], PLAIN).release == "5.1.0"
    both = [hint, Clue("i", "5.4.0")]  # no release obeys both
    assert release_found([SINCE_500, UNTIL_534], both, PLAIN).release == "5.3.4"


def test_clues_that_contradict_each_other_fit_none() -> None:
    text = asked([Clue("a", "5.4.0"), Clue("b", "", "4.9.7")], [], PLAIN)
    assert "fit no single one: a; b" in text


def test_without_clues_the_user_is_asked() -> None:
    """The index differs from 4.7.1 and from 5.4.0 on; with new records much more does."""
    few = asked([Clue("a", "4.7.1")], [], PLAIN)
    assert "it may be 4.7.1 to 5.3.4 or 5.4.0 to 5." in few
    many = asked([], [], UNREAD._replace(new_records=True))
    assert "it may be any from 4.1.0-incubating to 5." in many


def test_the_log_is_read_only_where_that_can_tell() -> None:
    """Up to 4.9.0 properties are read in another way, which few logs show."""
    clues = [Clue("a", "4.7.1"), Clue("b", "", "5.3.4")]
    looks = []

    def look(has: Has) -> Has:
        looks.append(has)
        return has._replace(odd_positions=False, malformed=False)

    found = release_found(clues, [], UNREAD, look)
    assert (found.release, len(looks)) == ("5.3.4", 1)
    assert "derive the same from this log: a; b" in found.by
    release_found(clues, [], PLAIN, look)
    with pytest.raises(UnknownRelease):
        release_found([], [], UNREAD, look)  # the index differs, whatever the log holds
    assert len(looks) == 1


def test_where_it_is_to_be_assumed_the_others_are_named() -> None:
    found = release_found([SINCE_500], [], PLAIN, assume=True)
    assert found.others == ("5.3.4",)
    assert found.by.startswith("assumed, of 5.0.0 to ")
    assert found.alike.startswith("5.4.0 to ")
    assert re.search(r"^5\.4\.0 to \S+ assumed; 5\.0\.0 to .* would fit as well$", found.alike)
