"""`__CRC32#`, the CRC of a whole record: where it is right, wrong, missing, or 0."""

import zlib
from dataclasses import replace

import numpy as np
import pytest

from reput.store_format.log.properties import new_spans
from reput.store_format.log.records import bad_property_crcs, first_bad_property_crc
from tests.logs import Message, encode, properties
from tests.store_format.log.windows import window_of

PLAIN = Message(body=b"body", properties=properties(("KEYS", "k")))
SEALED = replace(PLAIN, crc_property=True)
ZERO = Message(body=b"\xd5\xab\xac\xc6", body_crc=0, crc_property=True)  # at the log's start
NAME = b"__CRC32#\x01"


def bad(messages: list[Message], flip: int | None = None) -> list[bool]:
    """Whether each record's property is wrong, after a bit was flipped at a place."""
    window, rows = window_of(messages)
    window = window.copy()
    if flip is not None:
        window[flip] ^= 1
    found: list[bool] = bad_property_crcs(window, rows, False, new_spans()).tolist()
    return found


def first_bad(messages: list[Message], zero_counts: bool = True) -> int:
    window, rows = window_of(messages)
    return first_bad_property_crc(window, rows, False, zero_counts)


@pytest.mark.parametrize("at", [12, 30, 88, 93])
def test_every_byte_of_the_record_is_covered(at: int) -> None:
    """Of queueId, physicalOffset, the body and the topic."""
    assert bad([SEALED, SEALED]) == [False, False]
    size = len(encode(SEALED, 0))
    assert bad([SEALED, SEALED], flip=at) == [True, False]
    assert bad([SEALED, SEALED], flip=size + at) == [False, True]


def test_each_digit_of_the_property_counts() -> None:
    size = len(encode(SEALED, 0))
    for at in range(size - 11, size - 1):
        assert bad([SEALED], flip=at) == [True]


def test_a_record_without_the_property_is_missing_it_and_not_wrong() -> None:
    assert bad([PLAIN, SEALED, Message()]) == [False, False, False]
    assert first_bad([PLAIN, SEALED]) == 0
    assert first_bad([SEALED, PLAIN]) == 1
    assert first_bad([SEALED, SEALED]) == 2


@pytest.mark.parametrize("value", [b"0000000000", b"0", b"-1", b"\x01", b"123456789\xff"])
def test_any_other_value_is_wrong(value: bytes) -> None:
    text = properties(("a", "x" * 20)) + NAME + value + b"\x02"
    assert bad([replace(PLAIN, properties=text)]) == [True]


def test_of_two_properties_the_last_counts() -> None:
    wrong = NAME + b"1111111111\x02"
    assert bad([replace(SEALED, properties=wrong)]) == [False]
    window, rows = window_of([replace(SEALED, properties=wrong)])
    assert first_bad_property_crc(window, rows, False, True) == 1


@pytest.mark.parametrize(("zero_counts", "found"), [(True, 1), (False, 0)])
def test_a_crc_of_0_counts_from_5_3_2_on(zero_counts: bool, found: int) -> None:
    record = encode(ZERO, 0)
    assert zlib.crc32(record[:-20]) & 0x7FFFFFFF == 0
    assert record.endswith(NAME + b"0" * 10 + b"\x02")
    assert first_bad([ZERO], zero_counts) == found


def test_of_a_body_that_was_left_out_the_row_has_the_crc() -> None:
    window, rows = window_of([SEALED])
    crc = zlib.crc32(encode(SEALED, 0)[:-20]) & 0x7FFFFFFF
    rows = rows.copy()
    rows["bodyElided"] = 1
    for given, wrong in ((crc, False), (crc ^ 1, True)):
        rows["bodyCRC"] = np.int32(given)
        assert bad_property_crcs(window, rows, False, new_spans()).tolist() == [wrong]
