"""Strategies for whole logs, with the settings, version and topics to derive them by."""

import base64
import pickle
import zlib
from typing import Any, NamedTuple

from hypothesis import assume
from hypothesis import strategies as st

from tests.logs.damage import damaged
from tests.logs.encoder import HOST, Message, build_log, properties
from tests.logs.fields import (
    BATCH_TOPIC,
    LONG_TOPICS,
    START,
    TOPICS,
    Clock,
    QueueOffsets,
    Version,
    property_texts,
)
from tests.reference import derive
from tests.reference.derive import DispatchError

# At least one on each side of every difference between versions.
VERSIONS = ["4.1.0-incubating", "4.2.0", "4.5.0", "4.5.1", "4.5.2", "4.6.0", "4.7.0", "4.7.1",
    "4.9.0", "4.9.1", "4.9.2", "4.9.4", "4.9.7", "5.0.0", "5.1.0", "5.1.1", "5.1.2", "5.1.4",
    "5.2.0", "5.3.1", "5.3.2", "5.3.3", "5.4.0", "5.5.0", "5.5.1"]  # fmt: skip
HOST_V6 = bytes(range(16)) + HOST[4:]
TOPIC_ATTRIBUTES = {BATCH_TOPIC: {"queue.type": "BatchCQ"}, "T": {"queue.type": "SimpleCQ"}}


class Log(NamedTuple):
    """What `derive` takes: `derive(*log)`. Of a failed example the repr is pasted into a test."""

    segments: dict[int, bytes]
    settings: dict[str, Any]
    version: str
    topic_attributes: dict[str, dict[str, str]]

    def __repr__(self) -> str:
        text = base64.b85encode(zlib.compress(pickle.dumps(tuple(self)), 9)).decode()
        return f"Log(*pickle.loads(zlib.decompress(base64.b85decode({text!r}))))"


def numbers_of(version: str) -> Version:
    major, minor, patch = version.partition("-")[0].split(".")
    return int(major), int(minor), int(patch)


@st.composite
def settings_for(draw: st.DrawFn, version: str) -> dict[str, Any]:
    """Small files, so that they roll over; every switch; delay levels other than the default."""
    settings: dict[str, Any] = {
        "mappedFileSizeCommitLog": draw(st.sampled_from([2048, 3000, 4096, 16384])),
        # 45 is no whole number of entries: RocketMQ rounds it up to 60. Files of one entry make
        # its recovery loop for ever (truncateDirtyLogicFiles).
        "mappedFileSizeConsumeQueue": draw(st.sampled_from([40, 45, 100, 120, 2000])),
        "mapperFileSizeBatchConsumeQueue": draw(st.sampled_from([2, 3, 5, 100])) * 46,
        "maxHashSlotNum": draw(st.sampled_from([1, 2, 7, 50])),
        "maxIndexNum": draw(st.sampled_from([2, 3, 4, 5, 9, 40])),
        "messageIndexEnable": draw(st.sampled_from([True, True, True, False])),
        "enableMultiDispatch": draw(st.booleans()),
        "enableLmq": draw(st.booleans()),
        "checkCRCOnRecover": draw(st.sampled_from([True, True, True, False])),
    }
    if draw(st.booleans()):
        settings["messageDelayLevel"] = draw(st.sampled_from(["1s", "2s 1d 5m", "3h -1s 0s 1m"]))
    if numbers_of(version) >= (5, 2, 0):
        settings["forceVerifyPropCRC"] = draw(st.sampled_from([False, False, False, True]))
    if numbers_of(version) >= (5, 5, 0):
        settings["rocksdbCQDoubleWriteEnable"] = draw(st.booleans())
        settings["combineCQUseRocksdbForLmq"] = draw(st.booleans())
    return settings


@st.composite
def _messages(draw: st.DrawFn, version: Version, crc_property: bool) -> list[Message]:
    """Every kind of message, each drawn on its own."""
    clock = Clock(draw(st.sampled_from([START] * 6 + [1, -5000])))
    offsets = QueueOffsets(odd=draw(st.booleans()))
    # A number that does not parse ends the log there: not in every one.
    bad_numbers = draw(st.sampled_from([False] * 11 + [True]))
    topics = draw(st.lists(st.sampled_from(TOPICS), min_size=1, max_size=5))
    messages = []
    for _ in range(draw(st.integers(0, 24))):
        topic: str | bytes = draw(st.sampled_from(topics))
        layout = 1
        if version >= (5, 1, 0) and draw(st.sampled_from([False] * 5 + [True])):
            topic, layout = draw(st.sampled_from([*LONG_TOPICS, topic])), 2
        queue_id = draw(st.sampled_from([0, 0, 0, 1, 3, 2147483647, -1]))
        key = (topic if isinstance(topic, bytes) else topic.encode(), queue_id)
        sys_flag = draw(st.sampled_from([0, 0, 0, 4, 8, 12])) | draw(
            st.sampled_from([0, 0, 0x1, 0x2, 0x10, 0x20, 0x30, 0xC1])
        )
        body = draw(st.sampled_from([b"", b"x", b"body", bytes(range(256))]))
        lengths: dict[str, int] = {}
        text = draw(property_texts(version, bad_numbers))
        with_crc = crc_property or draw(st.sampled_from([False] * 9 + [True]))
        if with_crc and text and not text.endswith(b"\x02"):
            text += b"\x02"  # as MessageExtEncoder does, or the property would join the one before
        if draw(st.sampled_from([False] * 19 + [True])):
            # A negative length counts as 0: the record passes if the rest adds up.
            body, text, with_crc = b"", b"", False
            lengths = {draw(st.sampled_from(["body_length", "properties_length"])): -1}
        messages.append(
            Message(
                topic=topic,
                queue_id=queue_id,
                queue_offset=offsets.draw(draw, key),
                body=body,
                properties=text,
                store_timestamp=clock.draw(draw),
                sys_flag=sys_flag,
                version=layout,
                # Before 4.6.0 the flags did not exist and hosts had 8 bytes.
                born_host=HOST_V6 if sys_flag & 0x10 and version >= (4, 6, 0) else HOST,
                store_host=HOST_V6 if sys_flag & 0x20 and version >= (4, 6, 0) else HOST,
                crc_property=with_crc,
                **lengths,
            )
        )
    return messages


@st.composite
def _uniform(draw: st.DrawFn, crc_property: bool) -> list[Message]:
    """Many messages from a few draws: in one queue, in a few, or in one queue each."""
    count = draw(st.sampled_from([1, 50, 300, 1500]))
    topics = draw(st.sampled_from([1, 1, 3, count]))
    queues = draw(st.sampled_from([1, 1, 4]))
    first = draw(st.sampled_from([0, 0, 1, 99, 12_345]))
    keys = draw(st.integers(0, 3))
    distinct = draw(st.sampled_from([1, 5, 1_000_000]))
    counts: dict[tuple[int, int], int] = {}
    messages = []
    for number in range(count):
        queue = (number % topics, number // topics % queues)
        counts[queue] = counts.get(queue, -1) + 1
        tokens = " ".join(f"k{(number * keys + key) % distinct}" for key in range(keys))
        pairs = [("TAGS", f"tag{number % 3}"), ("UNIQ_KEY", f"u{number}")]
        pairs += [("KEYS", tokens)] if tokens else []
        messages.append(Message(topic=f"U{queue[0]}", queue_id=queue[1],
            queue_offset=first + counts[queue], body=b"b" * (number % 40),
            properties=properties(*pairs), store_timestamp=START + number * 700,
            crc_property=crc_property))  # fmt: skip
    return messages


@st.composite
def logs(draw: st.DrawFn, damage: bool = True, only_version: str | None = None) -> Log:
    """A log of any kind that the rules name, small enough to derive in milliseconds.

    With `damage`, some are cut, flipped or littered with stale records; without, every record of
    the log is whole, though RocketMQ may still refuse one (a DELAY that is no number).
    """
    version = only_version or draw(st.sampled_from(VERSIONS))
    settings = draw(settings_for(version))
    crc_property = settings.get("forceVerifyPropCRC", False)
    numbers = numbers_of(version)
    shape = draw(st.sampled_from(["mixed"] * 8 + ["uniform"] + ["empty"]))
    messages: list[Message] = []
    if shape == "mixed":
        messages = draw(_messages(numbers, crc_property))
    elif shape == "uniform":
        messages = draw(_uniform(crc_property))
    segment_size = settings["mappedFileSizeCommitLog"]
    segments = build_log(messages, segment_size,
        first_offset=draw(st.sampled_from([0, 0, 1, 1000, 1 << 30])) * segment_size,
        filler=draw(st.sampled_from([b"\0", b"\xff", b"stale \xda\xa3\x20\xa7"])),
        extra_segments=draw(st.sampled_from([0, 0, 0, 1])))  # fmt: skip
    if damage and messages:
        segments = draw(damaged(segments, messages))
    log = Log(segments, settings, version, TOPIC_ATTRIBUTES)
    assume(_is_derivable(log))
    return log


def _is_derivable(log: Log) -> bool:
    """Whether RocketMQ gets through it: a flipped bit may make a queue's name a path, or too long,
    or a queue offset of a multi-dispatch no number.
    """
    try:
        paths = derive(*log).files
    except DispatchError:
        return False
    names = [path.removeprefix("index/").split("/") for path in paths]
    return all(len(parts) in (1, 4)
        and all(0 < len(part.encode("utf-8", "surrogatepass")) < 256 for part in parts)
        and not {".", ".."} & set(parts) and "\0" not in "".join(parts)
        for parts in names)  # fmt: skip
