"""Stores of all kinds, as they are served: at a time, growing, damaged, with queues elsewhere."""

import asyncio
import json
import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from reput.broker.serving.broker import Broker
from reput.broker.serving.handlers import answer, reply
from reput.broker.wire.codes import RequestCode, ResponseCode
from reput.broker.wire.remoting import Command
from reput.broker.writer.writer import CommitLogWriter
from reput.jobs.sockets import opened as opening
from reput.jobs.sockets.opened import ServedSource, open_broker
from reput.jobs.sockets.server import Limits, Server
from reput.store_format.faults import StoreError
from reput.store_format.message.message import Message
from reput.store_format.release.settings import writer_settings_from
from tests import golden_stores
from tests.jobs.sockets.asking import HAS_SUBSCRIPTION, SUSPEND, Peer, pull, request
from tests.jobs.sockets.broker_answers import prepared, recorded, reported
from tests.jobs.sockets.comparing import CALLER, plain, whole
from tests.jobs.sockets.serving import SIZES, Serving

BEGIN = 1_795_000_000_000


class Growing:
    """A store that a writer appends to, a message every ten seconds."""

    def __init__(self, path: Path) -> None:
        self.path, self.now, self.count = path, BEGIN, 0
        settings = writer_settings_from(SIZES, release="5.3.3")
        self.writer = CommitLogWriter.open(
            str(path), settings, clock=lambda: self.now, release="5.3.3", background=False
        )

    def grow(self, many: int) -> None:
        for _ in range(many):
            n = self.count
            self.writer.append(Message("T", b"body %d" % n, n % 2, "AB"[n % 2], f"key{n} all"))
            self.count += 1
            self.now += 10_000
        self.writer.dispatch()

    def broker(self, **more: Any) -> Broker:
        return open_broker(ServedSource(str(self.path), "5.3.3", SIZES, **more), lambda _: None)


@pytest.fixture
def growing(tmp_path: Path) -> Iterator[Growing]:
    store = Growing(tmp_path / "store")
    store.grow(60)
    yield store
    store.writer.close()


def ask(broker: Broker, asked: Command) -> Command:
    return reply(broker, asked, whole(answer(broker, asked, CALLER)))


def bodies(broker: Broker, queue: int = 0) -> list[int]:
    """The numbers of all messages that a client reads of a queue."""
    found, at = list[int](), 0
    while True:
        answered = ask(broker, pull("T", queue, at, 7))
        at = int(answered.fields["nextBeginOffset"])
        if answered.code not in (ResponseCode.SUCCESS, ResponseCode.PULL_RETRY_IMMEDIATELY):
            return found
        parts = (answered.body or b"").split(b"body ")[1:]
        found += [int(part[: part.index(b"\x01")].decode()) for part in parts]


def hits(broker: Broker, key: str, most: int = 64) -> int:
    asked = request(RequestCode.QUERY_MESSAGE, topic="T", key=key, maxNum=most, beginTimestamp=0,
                    endTimestamp=1 << 42)  # fmt: skip
    return (ask(broker, asked).body or b"").count(b"body ")


def test_a_store_is_served_as_it_was(growing: Growing) -> None:
    growing.writer.close()  # our writer's newest index file has its header then
    at = BEGIN + 25 * 10_000  # when message 25 was stored
    broker = growing.broker(at=at)
    assert bodies(broker) == list(range(0, 26, 2))
    assert bodies(broker, 1) == list(range(1, 26, 2))
    end = ask(broker, request(RequestCode.GET_MAX_OFFSET, topic="T", queueId=0))
    assert end.fields == {"offset": "13"}
    for time, found in ((BEGIN + 10_000 * 24, 12), (BEGIN + 10_000 * 40, 13), (1 << 42, 13)):
        search = request(
            RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, topic="T", queueId=0, timestamp=time
        )
        assert ask(broker, search).fields == {"offset": str(found)}
    assert (hits(broker, "all"), hits(broker, "key25"), hits(broker, "key26")) == (26, 1, 0)
    assert hits(broker, "all", 3) == 3
    whole_store = growing.broker()
    assert hits(whole_store, "all") == 60
    places = whole_store.store.queue("T", 0).some(12, 2).places.tolist()  # type: ignore[union-attr]
    codes = [
        ask(broker, request(RequestCode.VIEW_MESSAGE_BY_ID, offset=place)).code for place in places
    ]
    assert codes == [ResponseCode.SUCCESS, ResponseCode.SYSTEM_ERROR]
    assert bodies(growing.broker(at=BEGIN - 1)) == []
    assert bodies(growing.broker(at=1 << 42)) == list(range(0, 60, 2))


def test_groups_offsets_end_where_their_queues_did_and_that_is_said(growing: Growing) -> None:
    """Today's offsets would be past the end: a client would get nothing, and not know why."""
    growing.writer.close()
    config = growing.path / "config"
    config.mkdir(exist_ok=True)
    offsets = {"offsetTable": {"T@ahead": {0: 30, 1: 5}, "T@early": {0: 2}, "Gone@ahead": {0: 9}}}
    (config / "consumerOffset.json").write_text(json.dumps(offsets))
    said: list[str] = []
    source = ServedSource(str(growing.path), "5.3.3", SIZES, at=BEGIN + 25 * 10_000)
    at = open_broker(source, said.append).offsets
    assert [at.query("ahead", "T", n) for n in (0, 1)] == [13, 5]
    assert (at.query("early", "T", 0), at.query("ahead", "Gone", 0)) == (2, 9)
    (line,) = said
    assert "1 of them were past the end as of then" in line
    now = open_broker(source._replace(at=None), lambda _: None).offsets
    assert now.query("ahead", "T", 0) == 30


def test_a_log_that_is_copied_in_is_served_as_far_as_it_is_there(growing: Growing) -> None:
    growing.writer.close()
    last = sorted((growing.path / "commitlog").iterdir())[-1]
    raw = last.read_bytes()
    last.write_bytes(raw[:1000])
    broker = growing.broker(follow=True)
    seen = [len(bodies(broker))]
    view = request(RequestCode.VIEW_MESSAGE_BY_ID, offset=int(last.name))
    for size in (1200, 3000, len(raw)):
        last.open("ab").write(raw[last.stat().st_size : size])
        assert ask(broker, view).code == ResponseCode.SUCCESS
        found = bodies(broker)  # of a file that is longer than it was listed
        assert len(found) == seen[-1]
        broker.store.refresh()
        seen.append(len(bodies(broker)))
    assert seen == sorted(seen)
    assert seen[0] < seen[-1] == 30


def test_a_pull_that_waits_is_answered_once_there_is_more(growing: Growing) -> None:
    with Serving(growing.path, "--follow") as serving, Peer(serving.address) as peer:
        waits = {"sysFlag": HAS_SUBSCRIPTION | SUSPEND, "suspendTimeoutMillis": 30_000}
        peer.send(pull("T", 0, 30, opaque=1, **waits))
        peer.send(pull("T", 1, 30, opaque=2, **waits))
        growing.grow(1)
        first = peer.next()
        assert (first.opaque, first.code, first.fields["maxOffset"]) == (1, 0, "31")
        growing.grow(1)
        assert (peer.next().opaque, serving.end(signal.SIGINT)) == (2, (0, ""))


def test_a_record_that_is_damaged_is_left_out_and_the_others_are_served(growing: Growing) -> None:
    queue = growing.broker().store.queue("T", 0)
    assert queue is not None
    place = int(queue.some(3, 1).places[0])
    growing.writer.close()
    segment, at = divmod(place, 8192)
    path = growing.path / "commitlog" / f"{segment * 8192:020d}"
    for field, raw in ((0, b"\0\0\xff\xff"), (4, b"????"), (28, b"\1"), (84, b"\x7f\xff\xff\xff")):
        sound = path.read_bytes()
        path.write_bytes(sound[: at + field] + raw + sound[at + field + len(raw) :])
        broker = growing.broker()
        assert bodies(broker) == [n for n in range(0, 60, 2) if n != 6]
        assert bodies(broker, 1) == list(range(1, 60, 2))
        view = request(RequestCode.VIEW_MESSAGE_BY_ID, offset=place)
        assert ask(broker, view).code == ResponseCode.SYSTEM_ERROR
        path.write_bytes(sound)


def test_queues_that_go_past_the_log_end_where_it_ends(growing: Growing) -> None:
    growing.writer.close()
    sorted((growing.path / "commitlog").iterdir())[-1].unlink()
    broker = growing.broker()
    found = bodies(broker)
    assert 0 < len(found) < 30
    assert found == list(range(0, 60, 2))[: len(found)]
    end = ask(broker, request(RequestCode.GET_MAX_OFFSET, topic="T", queueId=0))
    assert end.fields == {"offset": str(len(found))}


def test_a_queue_without_a_file_has_no_message(growing: Growing) -> None:
    (growing.path / "config").mkdir(exist_ok=True)
    about = {"readQueueNums": 3, "writeQueueNums": 3, "perm": 6}
    topics = {"T": about, "B": {**about, "attributes": {"queue.type": "BatchCQ"}}}
    (growing.path / "config/topics.json").write_text(json.dumps({"topicConfigTable": topics}))
    broker = growing.broker()
    for topic, least in (("T", "0"), ("B", "-1")):
        answers = [ask(broker, pull(topic, 2, offset)) for offset in (0, 5)]
        assert [each.code for each in answers] == [
            ResponseCode.PULL_NOT_FOUND, ResponseCode.PULL_OFFSET_MOVED]  # fmt: skip
        assert {each.fields["nextBeginOffset"] for each in answers} == {"0"}
        minimum = ask(broker, request(RequestCode.GET_MIN_OFFSET, topic=topic, queueId=2))
        assert minimum.fields == {"offset": least}


def test_the_boundary_of_a_time_is_obeyed_from_5_1_4_on(growing: Growing) -> None:
    between = BEGIN + 5_000  # messages 0 and 1; queue 0 has 0 and 2
    for release, offsets in (("5.1.2", ["1", "1"]), ("5.1.4", ["1", "0"])):
        broker = open_broker(ServedSource(str(growing.path), release, SIZES), lambda _: None)
        found = [ask(broker, request(
            RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, topic="T", queueId=0, timestamp=between,
            boundaryType=boundary)).fields["offset"]
                 for boundary in ("lower", "upper")]  # fmt: skip
        assert found == offsets


def test_a_pull_by_tags_goes_through_so_many_entries(growing: Growing) -> None:
    settings = {**SIZES, "maxFilterMessageSize": "100"}  # of entries of 20 bytes
    broker = open_broker(ServedSource(str(growing.path), "5.3.3", settings), lambda _: None)
    for most, following in ((3, 5), (7, 7), (100, 10)):  # a file has ten
        answered = ask(broker, pull("T", 0, 0, most, "none"))
        assert answered.code == ResponseCode.PULL_RETRY_IMMEDIATELY
        assert answered.fields["nextBeginOffset"] == str(following)


def test_long_records_go_from_the_file(growing: Growing) -> None:
    growing.writer.close()
    path = growing.path / "long"
    settings = writer_settings_from(
        {**SIZES, "mappedFileSizeCommitLog": "1048576"}, release="5.3.3"
    )
    with CommitLogWriter.open(
        str(path), settings, clock=lambda: BEGIN, release="5.3.3", background=False
    ) as writer:
        for n in range(6):
            writer.append(Message("T", b"body %d\x01" % n + bytes(40_000 if n % 3 else 10), 0))
    broker = open_broker(ServedSource(str(path), "5.3.3", SIZES), lambda _: None)
    assert bodies(broker) == list(range(6))
    with Serving(path) as serving, Peer(serving.address) as peer:
        answered = peer.ask(pull("T", 0, 0))
        assert answered == ask(broker, pull("T", 0, 0))._replace(version=answered.version)


def test_queues_and_index_may_be_those_of_a_rebuilt_set(tmp_path: Path) -> None:
    golden = golden_stores.unpack("mixed_5.5.0")
    store = golden_stores.copy_input(golden, tmp_path / "store")
    given = {name: str(value) for name, value in golden.settings.items()}
    bare = open_broker(ServedSource(str(store), "5.5.0", given), lambda _: None)
    assert "Topic0" not in bare.store.topics
    broker = open_broker(
        ServedSource(str(store), "5.5.0", given, derived=str(golden.expect)), lambda _: None
    )
    assert len(ask(broker, pull("Topic0", 0, 0)).body or b"") > 1000


def test_a_store_far_away_is_served_alike(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(opening, "is_local", lambda _: False)
    store, settings = prepared("expired_5.3.3", tmp_path)
    given = {each: str(value) for each, value in settings.items()}
    broker = open_broker(ServedSource(str(store), "5.3.3", given), lambda _: None)
    assert broker.store.far
    asked = recorded("expired_5.3.3")[::12]

    def client(address: str) -> list[list[Any]]:
        with Peer(address) as peer:
            for number, (each, _) in enumerate(asked):
                peer.send(each._replace(opaque=number))
            return [plain(reported(peer.next()), "") for _ in asked]

    async def served() -> list[list[Any]]:
        server = Server(broker, Limits(), lambda _: None)
        address = server.listen("127.0.0.1", 0)
        try:
            loop = asyncio.get_running_loop()
            return await asyncio.wait_for(loop.run_in_executor(None, client, address), 60)
        finally:
            server.close()

    assert asyncio.run(served()) == [plain(theirs, "") for _, theirs in asked]


def test_messages_that_no_queue_has_yet_are_named_where_a_broker_was_killed(growing) -> None:
    def reported(**more: Any) -> list[str]:
        notes: list[str] = []
        open_broker(ServedSource(str(growing.path), "5.3.3", SIZES, **more), notes.append)
        return notes

    assert reported() == []
    place = growing.writer.append(Message("T", b"not dispatched")).physical_offset
    (note,) = reported()
    assert f"physical offset {place} on: --rebuild" in note
    assert reported(follow=True) == reported(at=BEGIN) == []
    abort = (growing.path / "abort").rename(growing.path / "moved")
    assert reported() == []
    abort.rename(growing.path / "abort")


@pytest.mark.parametrize("what", ["commitlog", "consumequeue/T/0", "index", "."])
@pytest.mark.parametrize("how", ["cut", "removed", "emptied"])
def test_a_store_that_changes_beneath_the_server_is_answered_with_a_code(
    what: str, how: str, growing: Growing
) -> None:
    """Somebody cleans up, or a disk goes: no message is made up; OSError is all that ends it."""
    growing.writer.close()
    broker = growing.broker()
    sound = bodies(broker)
    files = [path for path in (growing.path / what).rglob("*") if path.is_file()]
    for path in files:
        if how == "removed":
            path.unlink()
        else:
            with path.open("r+b") as file:
                file.truncate(0 if how == "emptied" else path.stat().st_size // 2)
    found = set[int]()
    for _ in range(2):
        for asked in (
            *(pull("T", queue, at, 7) for queue in (0, 1) for at in range(0, 30, 7)),
            *(request(RequestCode.VIEW_MESSAGE_BY_ID, offset=at) for at in (0, 8192, 16384)),
            request(RequestCode.QUERY_MESSAGE, topic="T", key="all", maxNum=64, beginTimestamp=0,
                    endTimestamp=1 << 42),
            request(RequestCode.GET_MAX_OFFSET, topic="T", queueId=0),
            request(RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, topic="T", queueId=0, timestamp=BEGIN),
        ):  # fmt: skip
            try:
                said = ask(broker, asked)
            except OSError:  # Server._answer: SYSTEM_ERROR, and it is reported
                continue
            parts = (said.body or b"").split(b"body ")[1:]
            found |= {int(part[: part.index(b"\x01")].decode()) for part in parts}
        with suppress(StoreError, OSError):  # of a server that follows: reported, and tried again
            broker.store.refresh()
    assert found <= {*range(60)}
    assert len(sound) == 30
