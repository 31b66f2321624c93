"""Handles of popped messages, and the header fields that clients make them of (ExtraInfoUtil)."""

import pytest

from reput.broker.serving.handles import Handle, Infos, parse_handle, real_topic, retry_topics
from reput.broker.wire.codes import Refused

LONG_MOST = (1 << 63) - 1


def test_four_numbers_begin_a_handle() -> None:
    for text, handle in [
        ("7 1700000000000 60000 3 0 broker-a 2 9", Handle(7, 1_700_000_000_000, 60_000, 3)),
        ("7 1 2 999", Handle(7, 1, 2, 999)),
        (f"-1 {LONG_MOST} 0 0", Handle(-1, LONG_MOST, 0, 0)),
        (f"+7 {'0' * 40}1 2 2147483647", Handle(7, 1, 2, 2147483647)),  # as Java reads them
    ]:
        assert parse_handle(text) == handle
        assert handle.in_order == (handle.revive_queue == 999)
    for text in ["", "1 2 3", "1 2  3", "a 2 3 4", "1_2 2 3 4", "\n1 2 3 4", "\ud800 2 3 4",
                 "1 2 3 2147483648", f"{LONG_MOST + 1} 2 3 4", "9" * 5000 + " 2 3 4"]:  # fmt: skip
        with pytest.raises(Refused):
            parse_handle(text)
    for retry, topic in [
        ("0", "T"), ("1", "%RETRY%G_T"), ("2", "%RETRY%G+T"), ("3", None), ("", None)]:  # fmt: skip
        assert real_topic("T", "G", retry) == topic
        assert retry_topics("T", "G") == ("%RETRY%G_T", "%RETRY%G+T")


def test_an_answer_lists_queues_and_counts_with_semicolons() -> None:
    infos = Infos()
    assert (infos.starts, infos.positions, infos.counts) == ([], [], [])
    infos.add("T", 0, 10, [10, 11, 14])
    infos.add("%RETRY%G_T", 2, 5, [5])
    infos.add("%RETRY%G+T", 2, 6, [6])
    assert ";".join(infos.starts) == "0 0 10;1 2 5;2 2 6"
    assert ";".join(infos.positions) == "0 0 10,11,14;1 2 5;2 2 6"
    infos = Infos()
    infos.count("T", 3, 17, 2)
    infos.count("%RETRY%G+T", 3, None, 0)
    infos.count("a+b", 0, 0, 1)  # a plus alone makes no topic one for retries
    assert ";".join(infos.counts) == "0 qo3%17 2;2 3 0;0 qo0%0 1"
