"""What a store shows, as texts: sizes in whole units, and a line for each source."""

from typing import Any

import pytest

from reput.store_format.discover.store import discovered_lines, setting_text, size_text


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (1 << 30, "1 GiB"), (1 << 31, "2 GiB"), (16 << 20, "16 MiB"), (1536 << 10, "1,536 KiB"),
        ((1 << 30) + 1024, "1,048,577 KiB"), (1023, "1,023 bytes"), (1024, "1 KiB"),
        (6_000_000, "6,000,000 bytes"),
    ],
)  # fmt: skip
def test_a_size_has_the_largest_unit_of_which_it_is_a_whole_number(size: int, text: str) -> None:
    assert size_text(size) == text


def test_a_line_says_all_that_one_source_shows() -> None:
    found: dict[str, dict[str, Any]] = {
        "mappedFileSizeCommitLog": {"value": 1 << 30, "by": "by their size"},
        "maxHashSlotNum": {"value": 5_000_000, "by": "by their content"},
        "mappedFileSizeConsumeQueue": {"value": 100, "by": "by their size"},
        "maxIndexNum": {"value": 20, "by": "by their content"},
        "mapperFileSizeBatchConsumeQueue": {"value": 1 << 20, "by": "by their size"},
        "rocketmq": {"value": "5.3.3", "by": "timerwheel/"},
        "messageIndexEnable": {"value": False, "by": "by broker.conf"},
    }
    assert discovered_lines(found) == [
        "segments of 1 GiB, queue files of 100 bytes, batch queue files of 1 MiB: by their size",
        "index files of 5,000,000 slots, 20 entries: by their content",
        "RocketMQ 5.3.3: timerwheel/",
        "messageIndexEnable=false: by broker.conf",
    ]
    assert discovered_lines({}) == []


@pytest.mark.parametrize(("value", "text"), [(True, "true"), (7, "7"), ("1s 5s", "1s 5s")])
def test_a_setting_as_a_broker_writes_it(value: Any, text: str) -> None:
    assert setting_text(value) == text
