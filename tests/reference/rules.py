"""What differs between RocketMQ versions, and RocketMQ's settings with their defaults."""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tests.reference.javatext import parse_integer, split, wrap64

DEFAULTS: dict[str, Any] = {"mappedFileSizeCommitLog": 1024 * 1024 * 1024,
    "mappedFileSizeConsumeQueue": 300_000 * 20, "mapperFileSizeBatchConsumeQueue": 300_000 * 46,
    "maxHashSlotNum": 5_000_000, "maxIndexNum": 5_000_000 * 4, "messageIndexEnable": True,
    "messageDelayLevel": "1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h",
    "enableMultiDispatch": False, "enableLmq": False, "rocksdbCQDoubleWriteEnable": False,
    "combineCQUseRocksdbForLmq": False, "checkCRCOnRecover": True,
    "forceVerifyPropCRC": False}  # fmt: skip
MILLISECONDS = {"s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


def parse_version(version: str) -> tuple[int, int, int]:
    """`5.3.3` or `4.1.0-incubating` as numbers that compare."""
    match = re.match(r"(\d+)\.(\d+)\.(\d+)", version)
    if not match:
        raise ValueError(f"not a RocketMQ version: {version!r}")
    return (int(match[1]), int(match[2]), int(match[3]))


@dataclass(frozen=True)
class Rules:
    """One version of RocketMQ with one configuration (MessageStoreConfig) and its topics."""

    version: tuple[int, int, int]
    settings: Mapping[str, Any]
    topic_attributes: Mapping[str, Mapping[str, str]]

    def since(self, *version: int) -> bool:
        return self.version >= version

    def number(self, name: str) -> int:
        return int(self.settings.get(name, DEFAULTS[name]))

    def flag(self, name: str) -> bool:
        """A boolean; a broker's properties file gives it as text."""
        value = self.settings.get(name, DEFAULTS[name])
        return value.strip().lower() == "true" if isinstance(value, str) else bool(value)

    def queue_file_size(self) -> int:
        """MessageStoreConfig.getMappedFileSizeConsumeQueue: whole entries, rounded up."""
        return math.ceil(self.number("mappedFileSizeConsumeQueue") / 20) * 20

    def is_batch_topic(self, topic: str) -> bool:
        """QueueTypeUtils.getCQType; 5.0.0 on."""
        attributes = self.topic_attributes.get(topic) or {}
        return self.since(5, 0, 0) and attributes.get("queue.type") == "BatchCQ"

    def delay(self, level: int) -> int | None:
        """DefaultMessageStore.parseDelayLevel and computeDeliverTimestamp: level to milliseconds.

        Levels above the highest are clamped to it; none for a level that is not above 0. A
        setting that does not parse ends the table, counts as the highest and delays for a second.
        """
        table: dict[int, int] = {}
        highest = 0
        text = str(self.settings.get("messageDelayLevel", DEFAULTS["messageDelayLevel"]))
        for number, item in enumerate(split(text, " "), 1):
            if not item:
                break
            highest = number
            try:
                amount = parse_integer(item[:-1], 64)
                table[number] = wrap64(MILLISECONDS[item[-1]] * amount)
            except (ValueError, KeyError):
                break
        level = min(level, highest)
        return table.get(level, 1000) if level > 0 else None
