"""Pairs of stores for tests of a comparison: logs of plain messages, in memory."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from reput.jobs.compare import compare
from reput.jobs.comparing.report import CompareReport
from tests.in_process import Session
from tests.logs.encoder import Message, build_log, encode, properties
from tests.memory_storage import MemoryStorage

MASTER, SLAVE, STAGING = "master", "slave", "staging"
SEGMENT = 4096


def message(number: int, topic: str = "T", sender: str = "A", **fields: Any) -> Message:
    """A message whose UNIQ_KEY is of its sender and number; queueOffset is the number."""
    text = properties(("UNIQ_KEY", f"{sender}{number:08d}"), ("KEYS", f"k{number} j{number}"))
    body = fields.pop("body", f"body of {number}".encode())
    time = 1_700_000_000_000 + 1000 * number
    given = {"queue_offset": number, "store_timestamp": time, "properties": text, **fields}
    return Message(topic=topic, body=body, **given)


def store(
    name: str, messages: Sequence[Message], segment: int = SEGMENT, first: int = 0,
    config: Mapping[str, Any] | None = None,
) -> dict[str, bytes]:  # fmt: skip
    """The files of a store with this log."""
    log = build_log(messages, segment, first)
    files = {f"{name}/commitlog/{base:020d}": content for base, content in log.items()}
    for file, value in (config or {}).items():
        files[f"{name}/config/{file}"] = json.dumps(value).encode()
    return files


def compared(files: Mapping[str, bytes], seed: int = 0, *slaves: str, **more: Any) -> CompareReport:
    """The two stores compared in this process; nothing is left behind."""
    storage = MemoryStorage(files)
    storage.folders.add(STAGING)
    before = dict(storage.files)
    report = compare(
        Session(seed), MASTER, list(slaves or (SLAVE,)), storage=storage, staging_folder=STAGING,
        **{"rocketmq": "5.3.3", **more},
    )  # fmt: skip
    assert storage.files == before
    return report


COMMON = [message(n) for n in range(60)]  # nearly two segments


def pair(ours: Sequence[Message], theirs: Sequence[Message], **more: Any) -> dict[str, bytes]:
    return {**store(MASTER, ours, **more), **store(SLAVE, theirs, **more)}


def places(messages: Sequence[Message], segment: int = SEGMENT) -> list[int]:
    """Where each message's record begins, by walking the log that the encoder wrote."""
    found, at = [], 0
    for each in messages:
        size = len(encode(each, 0))
        if size + 8 > segment - at % segment:
            at += segment - at % segment
        found.append(at)
        at += size
    return found
