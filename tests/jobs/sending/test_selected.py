"""What is sent of a store and of an export of it: the same messages, chosen in the same way."""

import json
import zlib
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from reput.broker.wire.producing import Outgoing
from reput.jobs.export import export
from reput.jobs.opening.questions import open_store
from reput.jobs.send import Send
from reput.jobs.sending.selected import Selected
from reput.store_format.faults import DamageFound, StoreError
from reput.store_format.message.bodies import InnerMessage, encode_inner
from reput.store_format.release.settings import SettingError
from tests import golden_stores
from tests.built import T0, Built
from tests.in_process import Session
from tests.logs.encoder import Message, properties

ORIGIN, ID = ("RETRY_TOPIC", "Orders"), ("UNIQ_KEY", "AC11")
DEAD = properties(ID, ORIGIN, ("KEYS", "k1 k2"), ("price", "7"))
INNER = [InnerMessage(1, b"one", properties(("UNIQ_KEY", "i1"))), InnerMessage(2, b"two", b"")]


@pytest.fixture
def built() -> Built:
    made = Built().put("Orders", 1, 2, keys="k").put("%RETRY%g", 0, 1).put("rmq_sys_x", 0, 1)
    made.put("%DLQ%g", 0, 1, properties=DEAD, sys_flag=0x8 | 1, body=zlib.compress(b"dead"), flag=3)
    made.put("%DLQ%g", 0, 1, properties=properties(("RETRY_TOPIC", "../\n\x1b[31m")))
    made.put("%DLQ%g", 0, 1)
    made.add([Message("Batch", 0, 5, encode_inner(INNER), sys_flag=0xC0, store_timestamp=T0)])
    return made.derive()


@pytest.fixture(params=["store", "parquet", "jsonl", "file"])
def source(request: pytest.FixtureRequest, built: Built, tmp_path: Path) -> str:
    store = built.write(tmp_path / "store")
    kind = request.param
    if kind == "store":
        return str(store)
    format_ = "jsonl" if kind == "file" else kind
    export(Session(), str(store), str(tmp_path / "out"), format=format_, rocketmq="5.3.3",
           settings=built.given(), system_topics=True)  # type: ignore[arg-type] # fmt: skip
    return str(tmp_path / "out/data/part-00000000.jsonl" if kind == "file" else tmp_path / "out")


def found(
    source: str, since: int | None = None, until: int | None = None, **asked: Any
) -> list[Outgoing]:
    with closing(Selected(Send(source, "127.0.0.1:1", **asked))) as selected:
        return list(selected.messages("name", since, until, 1 << 62))


def test_without_a_topic_nothing_is_taken_that_stands_in_a_shared_one(source: str) -> None:
    assert [each.topic for each in found(source)] == ["Orders", "Orders", "Batch", "Batch"]
    batch = found(source, topic="Batch")
    assert [(m.body, m.flag, m.sys_flag, m.source["queueOffset"]) for m in batch] == [
        (b"one", 1, 0, 5), (b"two", 2, 0, 6)]  # fmt: skip
    assert [m.place[1] for m in batch] == [0, 1]
    assert batch[0].unique == "i1"
    assert len(batch[1].unique) == 32
    assert batch[1].unique == found(source)[3].unique  # the same in each run


def test_dead_letters_go_where_they_came_from(source: str) -> None:
    dead, hostile, lost = found(source, topic="%DLQ%g", to_topic="ORIGIN")
    assert (dead.topic, dead.properties) == (
        "Orders", dict([ID, ("KEYS", "k1 k2"), ("price", "7")]))  # fmt: skip
    assert (dead.body, dead.sys_flag, dead.flag) == (zlib.compress(b"dead"), 1, 3)
    assert "\n" not in hostile.refused
    assert "only ^[%|a-zA-Z0-9_-]+$ is allowed" in hostile.refused
    assert (lost.topic, lost.refused) == ("", "has neither DLQ_ORIGIN_TOPIC nor RETRY_TOPIC")
    assert [m.topic for m in found(source, topic="%DLQ%g", to_topic="Other")] == ["Other"] * 3


@pytest.mark.parametrize(
    ("asked", "numbers"),
    [
        ({"queue": 0}, []), ({"queue": 1}, [0, 1]), ({"keys": ["k1", "no"]}, [1]),
        ({"sql": "price = 7"}, []), ({"since": T0 + 1000}, [1]), ({"until": T0 + 1000}, [0]),
    ],
)  # fmt: skip
def test_messages_are_chosen_as_they_are_queried(asked, numbers, source) -> None:
    places = [each.source["queueOffset"] for each in found(source, topic="Orders", **asked)]
    assert places == numbers


@pytest.mark.parametrize(("asked", "said"),
                         [({"topic": "%DLQ%g"}, "--to-topic is missing: ORIGIN sends what"),
                          ({"queue": 1}, "are of a topic"), ({"keys": ["a"]}, "are of a topic"),
                          ({"to_topic": "../x"}, "--to-topic: topic '../x': only"),
                          ({"to_topic": "SCHEDULE_TOPIC_XXXX"}, "only the broker writes to it"),
                          ({"sql": "price ="}, "^SQL92 expression: line 1")])  # fmt: skip
def test_what_cannot_be_asked(asked: dict[str, Any], said: str, source: str) -> None:
    with pytest.raises(StoreError if "sql" in asked else SettingError, match=said):
        found(source, **asked)


def test_what_a_group_has_not_consumed(built: Built, tmp_path: Path) -> None:
    """Of a queue that only the log has from its start."""
    built.put("Orders", 2).file(
        "config/consumerOffset.json", '{"offsetTable":{"Orders@g":{"1":1}}}'
    )
    store = str(built.write(tmp_path / "store"))
    places = [(m.queue_id, m.source["queueOffset"]) for m in found(store, unconsumed_by="g")]
    assert places == [(1, 1), (2, 0)]
    with pytest.raises(StoreError, match="no offsets of group 'h'"):
        found(store, unconsumed_by="h")


@pytest.mark.parametrize("source", ["parquet", "jsonl", "file"], indirect=True)
def test_exports_that_are_none(source: str, tmp_path: Path) -> None:
    with pytest.raises(SettingError, match="is no store: it has no groups"):
        found(source, unconsumed_by="g")
    rows = Path(source) if source.endswith("jsonl") else next(Path(source).glob("data/part*"))
    raw = rows.read_bytes()
    rows.write_bytes(raw[: len(raw) // 2])
    with pytest.raises((DamageFound, StoreError)) as failed:
        found(source)
    assert "dead" not in str(failed.value)
    for line in (b"{}\n", b"7\n", b'{"topic":"T","body":"b"}\n', b"\xff\n", b"[" * 99_999 + b"\n"):
        path = tmp_path / "rows.jsonl"
        path.write_bytes(line)
        with pytest.raises(StoreError, match=r"rows\.jsonl: (line 1: |is no export)"):
            found(str(path))
    if source.endswith("jsonl"):
        lines = raw.splitlines(keepends=True)
        path.write_bytes(lines[1] + lines[0])
        with pytest.raises(StoreError, match="are not in the log's order"):
            found(str(path))
        first = json.loads(lines[0])
        del first["bodyBase64"]
        path.write_text(json.dumps(first) + "\n")
        with pytest.raises(StoreError, match="line 1"):
            found(str(path))


def test_the_messages_of_a_light_queue() -> None:
    """They stand in other topics, and are chosen by the light queue's own number."""
    store = str(golden_stores.unpack("lmq_batch_5.3.3").input)
    with open_store(store) as opened:
        lights = (each.properties.get("INNER_MULTI_DISPATCH", "") for each in opened.messages())
        name = next(names for names in lights if names).split(",")[0]
        places = [each.physical_offset for each in opened.messages(name)]
    for queue in (None, 0):
        sent = found(store, topic=name, queue=queue)
        assert [m.place[0] for m in sent] == places
        assert not {m.topic for m in sent} & {name}
