"""What a release does not know of the records of the release that wrote them."""

import pytest

from reput.store_format.release.profiles import profile
from reput.store_format.rewrite.changes import Seen, misfits

V4, V6 = bytes(8), bytes(20)
PLAIN = Seen("T", 0, False, False)


@pytest.mark.parametrize(
    ("seen", "since", "before", "words"),
    [
        (PLAIN._replace(long=True), "5.1.0", "5.0.0", "over 127 bytes"),
        (PLAIN._replace(sys_flags=0x10), "4.6.0", "4.5.2", "hosts of IPv6"),
        (PLAIN._replace(sys_flags=0x20), "4.6.0", "4.5.2", "hosts of IPv6"),
        (PLAIN._replace(batch_queue=True), "5.0.0", "4.9.8", "batch queue"),
        (PLAIN._replace(sys_flags=0x80), "5.0.0", "4.9.8", "batches in one record"),
        (PLAIN._replace(topic="rmq_sys_wheel_timer"), "5.0.0", "4.9.8", "the timer"),
        (PLAIN._replace(topic="RMQ_SYS_TRANS_HALF_TOPIC"), "4.3.0", "4.2.0", "half messages"),
        (PLAIN._replace(topic="RMQ_SYS_TRANS_OP_HALF_TOPIC"), "4.3.0", "4.2.0", "half messages"),
    ],
)
def test_what_is_read_since_a_release(seen: Seen, since: str, before: str, words: str) -> None:
    assert misfits([seen], b"", profile(since)) == []
    (line,) = misfits([PLAIN, seen], b"", profile(before))
    assert line.startswith(f"topic {seen.topic!r}: ")
    assert words in line
    assert f"from {since} on" in line


def test_a_plain_record_fits_every_release() -> None:
    flags = PLAIN._replace(sys_flags=0x1 | 0x2 | 0x8 | 0x300)
    assert misfits([PLAIN, flags], b"", profile("4.1.0")) == []


@pytest.mark.parametrize(
    ("flags", "host", "fits"),
    [
        (0x20, V4, True),  # it gets another storeHost
        (0x10, V4, False),
        (0, V6, False),
        (0, V4, True),
    ],
)
def test_a_new_store_host_counts_and_not_the_old_one(flags: int, host: bytes, fits: bool) -> None:
    seen = [PLAIN._replace(sys_flags=flags)]
    assert (misfits(seen, host, profile("4.5.2")) == []) == fits
    assert misfits(seen, host, profile("4.6.0")) == []


def test_a_line_a_topic_with_its_first_reason_and_not_all_of_a_long_name() -> None:
    seen = [Seen("t" * 300, 0x10, True, True), PLAIN, Seen("b", 0x80, False, True)]
    first, second = misfits(seen, b"", profile("4.1.0"))
    assert first.startswith(f"topic '{'t' * 127}': its name is over 127 bytes")
    assert second.startswith("topic 'b': has batches")
