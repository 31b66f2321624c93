"""Which texts repeat one that was to be kept out: short ones as words, long ones anywhere."""

import pytest

from reput.store_format.filter.texts import Repeats


def found(wanted: list[bytes], *texts: bytes) -> set[int]:
    return Repeats(wanted).found_in(list(texts))


@pytest.mark.parametrize(
    ("text", "repeats"),
    [
        (b"4711", True), (b"order 4711.", True), (b"-4711-", True), (b"\xe9" b"4711\xe9", True),
        (b"154711", False), (b"47110", False), (b"x4711", False), (b"4711Z", False),
        (b"471", False),
        (b"47110 4711", True), (b"", False),
    ],
)  # fmt: skip
def test_a_short_text_counts_only_as_a_word(text: bytes, repeats: bool) -> None:
    assert found([b"4711"], text) == ({0} if repeats else set())


def test_a_text_of_twelve_bytes_counts_anywhere() -> None:
    assert found([b"abcdefghijkl"], b"xabcdefghijklx") == {0}
    assert found([b"abcdefghijk"], b"xabcdefghijkx") == set()


def test_a_text_whose_ends_are_no_letters_needs_no_word_around_it() -> None:
    assert found([b"(47)"], b"x(47)x") == {0}
    assert found([b"(471"], b"x(47119") == set()


def test_texts_of_less_than_four_bytes_are_not_looked_for() -> None:
    assert found([b"", b"a", b"abc"], b"a", b"abc") == set()
    assert Repeats([b"abc", b"abcd"]).texts == {b"abcd"}


def test_the_numbers_are_those_of_the_texts_that_repeat_one() -> None:
    assert found([b"abcd", b"efgh"], b"", b"abcd", b"x", b"efgh abcd", b"") == {1, 3}
    assert found([b"abcd"]) == found([], b"abcd") == set()


def test_nothing_is_found_over_the_border_of_two_texts() -> None:
    assert found([b"abcd", b"abcdefghijklmnop"], b"ab", b"cd", b"abcdefgh", b"ijklmnop") == set()


def test_one_of_several_texts_with_the_same_beginning_is_found() -> None:
    wanted = [b"abcd", b"abcdef", b"abcdefghijklmn"]
    assert found(wanted, b"abcde", b"abcdef", b"abcdefg", b"abcdefghijklmnop") == {1, 3}


def test_a_short_text_at_an_end_is_not_taken_for_a_longer_one() -> None:
    assert found([b"4711", b"471199999999"], b"154711", b"15471199999999", b"15 4711") == {1, 2}


@pytest.mark.parametrize("at", [(1 << 20) - 4, (1 << 20) - 1, 1 << 20])
def test_a_text_is_found_across_the_pieces_that_are_searched(at: int) -> None:
    long = bytearray(b" ") * ((1 << 20) + 4)
    long[at : at + 4] = b"abcd"
    assert found([b"abcd"], bytes(long)) == {0}
