"""A command's flags, by docs/formats/remoting.md, and which numbers are Java's ints."""

from typing import Any

import pytest

from reput.broker.wire.remoting import Command, Serialization, is_int


@pytest.mark.parametrize(
    ("flag", "response", "one_way"),
    [
        (0, False, False),
        (1, True, False),
        (2, False, True),
        (3, True, True),
        (4, False, False),  # bits that nobody has given a meaning
        (-1, True, True),
        (-(1 << 31), False, False),
    ],
)
def test_bit_0_is_an_answers_and_bit_1_of_what_nobody_answers(
    flag: int, response: bool, one_way: bool
) -> None:
    command = Command(11, flag=flag)
    assert (command.is_response, command.is_one_way) == (response, one_way)


@pytest.mark.parametrize(
    ("value", "fits"),
    [
        (0, True),
        ((1 << 31) - 1, True),
        (1 << 31, False),
        (-(1 << 31), True),
        (-(1 << 31) - 1, False),
        (True, False),  # JSON's true is not a number
        (1.0, False),
        ("1", False),
        (None, False),
    ],
)
def test_an_int_has_32_bits_and_a_sign_and_is_no_boolean(value: Any, fits: bool) -> None:
    assert is_int(value) is fits


def test_a_command_that_says_no_more_is_a_request_in_json_without_a_body() -> None:
    command = Command(105)
    assert (command.opaque, command.fields, command.body, command.remark) == (0, {}, b"", None)
    assert (command.serialization, command.language) == (Serialization.JSON, 0)
    assert (int(Serialization.JSON), int(Serialization.ROCKETMQ)) == (0, 1)  # on the wire
