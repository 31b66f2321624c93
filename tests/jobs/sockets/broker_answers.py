"""What real brokers answered to many requests about golden stores, recorded once.

`python -m tests.jobs.sockets.broker_answers` (needs Maven) starts RocketMQ on each store, asks it
over its socket, and writes `answers/NAME.json.xz`: a request and its answer a line.
`test_as_brokers` asks the same of us.
"""

from __future__ import annotations

import hashlib
import json
import lzma
import os
import random
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from reput.broker.wire.codes import RequestCode
from reput.broker.wire.remoting import Command
from reput.jobs.opening.questions import open_store
from tests import golden_stores
from tests.jobs.sockets.asking import Peer, pull, request

ANSWERS = Path(__file__).parent / "answers"
STORES = {  # golden store: the release that was asked
    "mixed_4.9.7": "4.9.7",
    "expired_5.3.3": "5.3.3",
    "lmq_batch_5.3.3": "5.3.3",
    "mixed_5.5.0": "5.5.0",
}
NAME = "judge"  # brokerName of the driver's broker
_CHANGED = 1_795_246_245  # seconds: when queue files changed, by which 4.9.7 chooses among them
_FAR = 1 << 42


def prepared(name: str, folder: Path) -> tuple[Path, dict[str, Any]]:
    """(the store with RocketMQ's own derived files, a topics.json for it; its settings)."""
    golden = golden_stores.unpack(name)
    store = golden_stores.copy_input(golden, folder / name)
    for each in golden.expect.iterdir():
        copy = shutil.copytree if each.is_dir() else shutil.copy
        copy(each, store / each.name)
    topics = {}
    for kind in ("consumequeue", "batchconsumequeue"):
        for topic in sorted((store / kind).iterdir()) if (store / kind).is_dir() else ():
            queues = max(int(queue.name) for queue in topic.iterdir()) + 1
            topics[topic.name] = {
                "topicName": topic.name, "readQueueNums": queues, "writeQueueNums": queues,
                "perm": 6, "topicSysFlag": 0, "topicFilterType": "SINGLE_TAG", "order": False,
                "attributes": golden.topic_attributes.get(topic.name, {})}  # fmt: skip
    (store / "config").mkdir(exist_ok=True)
    (store / "config" / "topics.json").write_text(json.dumps({"topicConfigTable": topics}))
    # nothing that is due is delivered, so that the log stays as it is
    levels = dict.fromkeys(range(1, 19), 1 << 40)
    offsets = ",".join(f"{level}:{offset}" for level, offset in levels.items())
    (store / "config" / "delayOffset.json").write_text(f'{{"offsetTable":{{{offsets}}}}}')
    for path in sorted((store / "consumequeue").rglob("0*")):
        if path.is_file():
            os.utime(path, (_CHANGED, _CHANGED + int(path.name) // 1000))
    return store, dict(golden.settings)


def requests(store: Path) -> Iterator[Command]:
    """Many requests: usual ones, and at all edges."""
    draw = random.Random(7)
    with open_store(str(store)) as opened:
        queues = opened.queues()
        some = {(row.topic, row.queue_id): list(
            opened.messages(row.topic, row.queue_id, max(row.min_offset, 0), 60))
                for row in queues}  # fmt: skip
    for row in draw.sample(queues, min(len(queues), 14)):
        topic, queue, end = row.topic, row.queue_id, row.max_offset
        near = {-1, 0, 1, end - 1, end, end + 1, end + 99, row.min_offset - 1, row.min_offset}
        for offset in sorted(near | {draw.randrange(end + 1) for _ in range(3)}):
            yield pull(topic, queue, offset, draw.choice((0, 1, 7, 32, 64, 1000)))
        messages = some[topic, queue]
        tags = sorted({message.tags or "" for message in messages})[:3]
        for wanted in (*tags, " || ".join(tags), "none", "*", "||", " "):
            yield pull(topic, queue, draw.randrange(end + 1), 32, wanted)
        names = sorted({n for message in messages for n in message.properties})[:4]
        expressions = [f"{name} IS NOT NULL" for name in names if name.isidentifier()]
        for sql in (*expressions, "nothing IS NULL", "a >", "TAGS = 'none'", ""):
            yield pull(topic, queue, draw.randrange(end + 1), 32, sql, expressionType="SQL92")
        at = {"topic": topic, "queueId": queue}
        yield request(RequestCode.GET_MAX_OFFSET, **at)
        yield request(RequestCode.GET_MIN_OFFSET, **at)
        yield request(RequestCode.GET_EARLIEST_MSG_STORETIME, **at)
        stamps = sorted({message.store_timestamp for message in messages})
        for stamp in [0, _FAR, *stamps[:2], *stamps[-2:],
                      *draw.sample(stamps, min(len(stamps), 2))]:  # fmt: skip
            for more in (-1, 0, 1):
                for boundary in ({}, {"boundaryType": "lower"}, {"boundaryType": "UPPER"}):
                    yield request(
                        RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, timestamp=stamp + more, **at,
                        **boundary)  # fmt: skip
        for message in messages[:4]:
            for key in message.keys[:2]:
                window = {"beginTimestamp": 0, "endTimestamp": _FAR}
                asked = {"topic": topic, "key": key, "maxNum": draw.choice((1, 5, 64, 500))}
                yield request(RequestCode.QUERY_MESSAGE, **asked, **window)
                window["beginTimestamp"] = message.store_timestamp
                yield request(RequestCode.QUERY_MESSAGE, **asked, **window)
                if message.unique_key:
                    asked |= {"key": message.unique_key, "_UNIQUE_KEY_QUERY": "true"}
                    yield request(RequestCode.QUERY_MESSAGE, **asked, **window)
            yield request(RequestCode.VIEW_MESSAGE_BY_ID, offset=message.physical_offset)
        yield request(RequestCode.QUERY_MESSAGE, topic=topic, key="no such key", maxNum=64,
                      beginTimestamp=0, endTimestamp=_FAR)  # fmt: skip
        yield pull(topic, row.queue_id + 1000, 0)
        yield pull(topic, -1, 0)
        yield request(RequestCode.GET_MAX_OFFSET, topic=topic, queueId=row.queue_id + 1000)
        yield request(RequestCode.GET_MIN_OFFSET, topic=topic, queueId=row.queue_id + 1000)
    yield pull("NoSuchTopic", 0, 0)
    yield request(RequestCode.VIEW_MESSAGE_BY_ID, offset=1 << 40)
    yield request(9999)


def reported(answer: Command) -> list[Any]:
    """An answer as it is compared: code, remark, fields, length and digest of the body."""
    body = answer.body or b""
    return [answer.code, answer.remark, dict(sorted(answer.fields.items())), len(body),
            hashlib.sha1(body).hexdigest()[:12] if body else ""]  # fmt: skip


def recorded(name: str) -> list[tuple[Command, list[Any]]]:
    """(request, what the broker said) of one store."""
    lines = lzma.decompress((ANSWERS / f"{name}.json.xz").read_bytes()).splitlines()
    found = []
    for line in lines:
        code, fields, answer = json.loads(line)
        found.append((request(code, **fields), answer))
    return found


def record(name: str, release: str) -> None:
    """Ask the real broker, and write down what it said."""
    from tests.rocketmq.live import Broker

    with tempfile.TemporaryDirectory() as folder:
        store, settings = prepared(name, Path(folder))
        asked = list(requests(store))
        settings["brokerPermission"] = 4
        with Broker(release, store, **settings) as broker, Peer(f"127.0.0.1:{broker.port}") as peer:
            answered = [reported(peer.ask(each._replace(opaque=n))) for n, each in enumerate(asked)]
    lines = [json.dumps([each.code, each.fields, answer])
             for each, answer in zip(asked, answered, strict=True)]  # fmt: skip
    ANSWERS.mkdir(exist_ok=True)
    (ANSWERS / f"{name}.json.xz").write_bytes(lzma.compress("\n".join(lines).encode(), preset=9))


if __name__ == "__main__":
    for each in sys.argv[1:] or STORES:
        record(each, STORES[each])
