"""Wrong values of a message's fields, by the field and by the least and greatest that fits."""

from collections import UserDict
from typing import Any

import numpy as np
import pytest

from reput.store_format.message.message import (
    Message,
    check_keys,
    check_range,
    check_types,
    wrong_type,
)
from reput.store_format.message.refusals import FieldRange, FieldType


def message(**named: Any) -> Message:
    return Message(**{"topic": "T", "body": b"", **named})


@pytest.mark.parametrize("bits", [32, 64])
def test_a_signed_field_holds_its_least_and_its_greatest_number(bits: int) -> None:
    half = 2 ** (bits - 1)
    for value in (-half, 0, half - 1):
        check_range("flag", value, bits)
    for value in (-half - 1, half):
        with pytest.raises(FieldRange, match=f"^flag={value} does not fit into {bits} bits$"):
            check_range("flag", value, bits)


@pytest.mark.parametrize(
    ("name", "fits", "over"),
    [
        ("queue_id", 2**31 - 1, 2**31), ("flag", -(2**31), -(2**31) - 1),
        ("prepared_offset", 2**63 - 1, 2**63), ("born_timestamp", -(2**63), -(2**63) - 1),
    ],
)  # fmt: skip
def test_offsets_and_times_are_longs_and_the_rest_ints(name: str, fits: int, over: int) -> None:
    check_types(message(**{name: fits}))
    with pytest.raises(FieldRange, match=f"^{name}="):
        check_types(message(**{name: over}))


@pytest.mark.parametrize(
    "named",
    [
        {"body": None}, {"body": bytearray(1)}, {"body": memoryview(b"x")},
        {"flag": np.int32(7), "queue_id": True}, {"unique_key": None}, {"born_timestamp": None},
        {"properties": None}, {"properties": b"\xff"}, {"properties": UserDict(a="x")},
    ],
)  # fmt: skip
def test_what_the_encoder_can_write_passes(named: dict[str, Any]) -> None:
    check_types(message(**named))


@pytest.mark.parametrize("keys", ["", "a b", [], ["a"], ("a", "b")])
def test_keys_are_a_text_or_several(keys: Any) -> None:
    check_keys(keys)


@pytest.mark.parametrize(
    ("keys", "kind"),
    [(b"a", "bytes"), ({"a"}, "set"), (["a", None], "NoneType"), ([b"a"], "bytes")],
)
def test_keys_of_another_type_are_refused(keys: Any, kind: str) -> None:
    with pytest.raises(FieldType, match=f"expected text or several texts, not {kind}$"):
        check_keys(keys)


def test_an_error_names_the_type_and_keeps_the_value_to_itself() -> None:
    assert str(wrong_type("properties", "text", b"secret")) == (
        "properties: expected text, not bytes"
    )
    with pytest.raises(FieldType) as raised:
        check_types(Message("T", b"", properties={"a": b"secret"}))  # type: ignore[dict-item]
    assert "secret" not in str(raised.value)


def test_the_first_wrong_field_is_named() -> None:
    with pytest.raises(FieldType, match=r"^topic:"):
        check_types(Message(5, "text", flag="1"))  # type: ignore[arg-type]
