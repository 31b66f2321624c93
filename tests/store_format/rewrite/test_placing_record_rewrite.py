"""Records at new places and with new names, against those that a broker would have written."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from reput.store_format.dispatch.scan import scan_rules
from reput.store_format.log.rules import NO_CHECKS
from reput.store_format.log.walk import Walk
from reput.store_format.release.profiles import profile
from reput.store_format.release.settings import settings_from
from reput.store_format.rewrite.changes import Changes
from reput.store_format.rewrite.placing import (
    Alike,
    To,
    copy_rows,
    ends_in_crc,
    prepared_offsets,
    rewrite,
    stamp,
)
from reput.store_format.rewrite.selection import RecordSelector
from tests.logs import Message, encode, properties

RULES = scan_rules(profile("5.3.3"), settings_from({}), ())
V6 = bytes(16) + b"\0\0\0\1"
PLAIN = Message(
    "A", 2, 7, b"body", properties(("RETRY_TOPIC", "A"), ("KEYS", "k"), ("REAL_TOPIC", "A")),
    prepared_transaction_offset=55,
)  # fmt: skip


def walked(message: Message, at: int = 0) -> tuple[Any, Any]:
    raw = np.frombuffer(encode(message, at), np.uint8)

    def read(place: int, buffer: Any) -> None:
        buffer[:] = raw[place - at : place - at + len(buffer)]

    walk = Walk(read, at + len(raw), RULES.records, NO_CHECKS, np.empty(len(raw), np.uint8))
    (step,) = walk.steps(at, at + len(raw))
    return step.window, step.rows


def numbers(*values: int) -> Any:
    return np.array(values, np.int64)


@pytest.mark.parametrize(
    ("changes", "fields"),
    [
        (Changes(renames=(("A", "Bcd"),)), {"topic": "Bcd"}),
        (Changes(renames=(("A", "b" * 128),)), {"topic": "b" * 128, "version": 2}),
        (Changes(shifts=(("A", 4),)), {"queue_id": 6}),
        (Changes(store_host=V6), {"store_host": V6, "sys_flag": 0x20}),
        (Changes(store_host=b"\1\2\3\4\0\0\0\5"), {"store_host": b"\1\2\3\4\0\0\0\5"}),
    ],
)
@pytest.mark.parametrize("sealed", [False, True])
def test_a_record_written_anew_is_as_if_it_had_been_sent_so(
    changes: Changes, fields: dict[str, Any], sealed: bool
) -> None:
    message = replace(PLAIN, crc_property=sealed)
    window, rows = walked(message)
    selector = RecordSelector(changes, RULES)
    ((selection, _),) = selector.select(window, rows)
    name = fields.get("topic", "A")
    text = properties(("RETRY_TOPIC", name), ("KEYS", "k"), ("REAL_TOPIC", name))
    wanted = encode(
        replace(message, queue_offset=3, prepared_transaction_offset=88, properties=text, **fields),
        5000,
    )
    out = np.zeros(len(wanted) + 10, np.uint8)
    host = np.frombuffer(changes.store_host, np.uint8)
    rewrite(
        window, rows, selection, To(numbers(5000), numbers(3), numbers(88), numbers(), numbers()),
        Alike(selector.decided, selector.names, host, True, 0), out, 4990,
    )  # fmt: skip
    assert out.tobytes() == bytes(10) + wanted


@pytest.mark.parametrize("sealed", [False, True])
@pytest.mark.parametrize("prepared", [None, 88])
def test_a_copied_record_gets_its_place_and_a_new_seal(sealed: bool, prepared: int | None) -> None:
    message = replace(PLAIN, crc_property=sealed)
    window, rows = walked(message, 300)
    out = np.zeros(10 + len(window), np.uint8)
    copy_rows(window, rows, numbers(5000), out, 4990)
    stamp(out, 4990, rows, numbers(5000), numbers() if prepared is None else numbers(prepared))
    link = 55 if prepared is None else prepared
    wanted = encode(replace(message, prepared_transaction_offset=link), 5000)
    assert out.tobytes() == bytes(10) + wanted


@pytest.mark.parametrize(
    ("text", "sealed"),
    [
        (b"__CRC32#\x010123456789\x02", True),
        (b"a\x01b\x02__CRC32#\x010123456789\x02", True),
        (b"__CRC32#\x010123456789", False),
        (b"__CRC32#\x01012345678\x02\x02", True),  # only its frame is looked at
        (b"__crc32#\x010123456789\x02", False),
        (b"_CRC32#\x010123456789\x02", False),  # a byte too short
        (b"", False),
    ],
)
def test_a_seal_is_known_by_its_place_and_name(text: bytes, sealed: bool) -> None:
    buf = np.frombuffer(b"_" * 30 + text, np.uint8)
    assert ends_in_crc(buf, 30, len(buf)) == sealed


def test_links_to_prepared_messages_are_read_and_counted() -> None:
    for link, count in ((0, 0), (55, 1), (-1, 1)):
        window, rows = walked(replace(PLAIN, prepared_transaction_offset=link))
        found = np.full(1, -7, np.int64)
        assert prepared_offsets(window, rows, found) == count
        assert found.tolist() == [link]
