"""The source's rows are what a real client consumes from a broker on the same store."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable

from reput.jobs.engine.log_source import CommitLogSource
from reput.jobs.engine.log_stream import LogStream
from reput.jobs.export import export
from tests.rocketmq.build import VERSIONS
from tests.rocketmq.driver import Driver
from tests.rocketmq.live import SETTINGS, TOPICS, Broker, Client, messages
from tests.rocketmq.test_repair import _flip
from tests.source.reading import table

pytestmark = [pytest.mark.rocketmq, pytest.mark.long]

SENT, MORE, DAMAGED = 600, 90, 50
_COLUMNS = "topic,queueId,queueOffset,uniqueKey,physicalOffset,body,tags,properties"


def _told(row: dict[str, Any]) -> list[Any]:
    """As Consumers.told has a message."""
    return [
        row["topic"], row["queueId"], row["queueOffset"], row["uniqueKey"], row["physicalOffset"],
        hashlib.sha1(row["body"]).hexdigest(), str(row["tags"]),
        dict(row["properties"]).get("KEYS", "null"),
    ]  # fmt: skip


def _rows(version: str, store: Path, **options: Any) -> list[list[Any]]:
    options = {"columns": _COLUMNS, "subscribe": ",".join(TOPICS), **options}
    found = table(store, rocketmq=version, **options)
    return sorted(_told(row) for row in found.to_pylist())


def _new(stream: LogStream, start: dict[str, int]) -> tuple[list[list[Any]], dict[str, int]]:
    end = stream.latestOffset(start, ReadAllAvailable())
    batches = [b for part in stream.partitions(start, end) for b in stream.read(part)]
    return sorted(_told(row) for batch in batches for row in batch.to_pylist()), end


@pytest.mark.parametrize("version", VERSIONS)
def test_rows_are_what_a_client_consumes(
    version: str, folder: Path, needs_rocketmq: Callable[[str], None]
) -> None:
    needs_rocketmq(version)
    store = folder / "store"
    given = {"path": str(store), "columns": _COLUMNS, "subscribe": ",".join(TOPICS),
             "rocketmq": version}  # fmt: skip
    source = CommitLogSource(given)
    with Driver(version) as client:
        with Broker(version, store) as broker:
            asking = Client(client, broker.namesrv)
            asking.send(messages(SENT))
            consumed = sorted(asking.read(group="first"))
            assert len(consumed) == SENT
            assert _rows(version, store) == consumed  # the broker has the store
            stream = source.streamReader(source.schema())
            before, end = _new(stream, stream.initialOffset())
            assert before == consumed
            asking.send(messages(MORE, first=SENT))
            after, end = _new(stream, end)
            consumed = sorted(asking.read(group="second"))
            assert sorted(before + after) == consumed
            broker.stop()
        assert _rows(version, store, minPartitions=7) == consumed
        assert _new(stream, end) == ([], _new(stream, end)[1])
        damaged = sorted(consumed, key=lambda message: message[4])[DAMAGED]
        _flip(store, damaged[4], 2)  # totalSize
        rest = [message for message in consumed if message != damaged]
        settings = {name: value for name, value in SETTINGS.items() if "CommitLog" in name}
        assert _rows(version, store, onDamage="salvage", **settings) == rest


def test_a_broker_serves_an_exported_store(
    folder: Path, needs_rocketmq: Callable[[str], None]
) -> None:
    version = "5.3.3"
    needs_rocketmq(version)
    store, made = folder / "store", folder / "made"
    with Driver(version) as client:
        with Broker(version, store) as broker:
            asking = Client(client, broker.namesrv)
            asking.send(messages(SENT))
            consumed = asking.read(group="first")
            broker.stop()
        topic = TOPICS[1]
        export(None, str(store), str(made), format="rocketmq", rocketmq=version, topics=[topic])
        with Broker(version, made) as broker:
            served = Client(client, broker.namesrv).read((topic,), group="second")
            broker.stop()
    wanted = [message for message in consumed if message[0] == topic]

    def kept(told: list[Any]) -> list[Any]:  # all but positions
        return [told[0], told[1], told[3], *told[5:]]

    assert sorted(map(kept, served)) == sorted(map(kept, wanted))
    assert len(served) == SENT // len(TOPICS)
