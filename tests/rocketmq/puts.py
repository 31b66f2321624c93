"""Stores that RocketMQ's own putMessage writes, and their derived files."""

import base64
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from reput.store_format.message.message import Message
from tests.reference.compare import derived_files
from tests.rocketmq.driver import Driver

SIZES = {"mappedFileSizeCommitLog": 65536, "mappedFileSizeConsumeQueue": 2000, "maxHashSlotNum": 50,
         "maxIndexNum": 200}  # fmt: skip


def derived(root: Path) -> dict[str, bytes]:
    """Queues and index by name; index files by number, their names are the clock's."""
    return {name: path.read_bytes() for name, path in derived_files(root)}


def assert_same(found: dict[str, bytes], expected: dict[str, bytes]) -> None:
    assert sorted(found.keys() ^ expected.keys()) == []  # in one of them alone
    for name, content in expected.items():
        assert found[name] == content, name


def put(
    driver: Driver, store: Path, many: int, settings: Mapping[str, object] = SIZES
) -> None:  # fmt: skip
    messages = [
        {"t": f"T{n % 3}", "q": n % 2, "b": n * 31 % 500, "bs": n, "born": 1,
         "p": {"UNIQ_KEY": f"U{n}", "KEYS": f"r{n} s", "TAGS": "t"}}
        for n in range(many)
    ]  # fmt: skip
    answer = driver.ask("put", store=str(store), settings=dict(settings), messages=messages)
    assert answer["statuses"] == {"PUT_OK": many}


def as_job(message: Message) -> dict[str, Any]:
    """What the driver's `put` gets of a message; properties as the client puts them."""
    assert not isinstance(message.properties, bytes)
    p = dict(message.properties or {})
    if message.keys:
        p["KEYS"] = message.keys if isinstance(message.keys, str) else " ".join(message.keys)
    if message.tags:
        p["TAGS"] = message.tags
    if not message.wait:
        p["WAIT"] = "false"
    if message.delay_level:
        p["DELAY"] = str(message.delay_level)
    assert message.unique_key
    p["UNIQ_KEY"] = message.unique_key
    return {"t": message.topic, "q": message.queue_id, "p": p, "flag": message.flag,
            "body": base64.b64encode(message.body).decode(), "born": message.born_timestamp,
            "bh": message.born_host, "sh": message.store_host, "rc": message.reconsume_times,
            "sys": message.sys_flag | message.transaction}  # fmt: skip
