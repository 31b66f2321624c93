"""Each message is stored once, whatever brokers do; what may be there twice is said."""

import json
import os
import shutil
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from reput.jobs.console.options import Ago
from reput.jobs.send import Sent, send
from reput.jobs.sending import sender
from reput.store_format.faults import PeerFailed, StoreError
from tests.built import SIZES, T0, Built
from tests.jobs.sending.fake_cluster import BATCH, DROP, LOSE, SEND, STORE, FakeCluster, cluster
from tests.logs.encoder import properties

BUSY, UNAVAILABLE, ILLEGAL, NO_PERMISSION, SLAVE_AWAY = 2, 14, 13, 16, 11


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """Time passes where it is waited away, and nowhere else: as long as on an idle machine."""
    slept = [0.0]
    told = SimpleNamespace(monotonic=lambda: sum(slept), sleep=slept.append, time_ns=time.time_ns)
    monkeypatch.setattr(sender, "time", told)


@pytest.fixture
def store(tmp_path: Path) -> str:
    built = Built()
    for _ in range(6):
        built.put("T", 0, keys="k").put("T", 1, keys="k")
    return str(built.derive().write(tmp_path / "store"))


def bodies(numbers: Any = range(12)) -> list[bytes]:
    return [b"body %d" % number for number in numbers]


def sending(
    there: FakeCluster, store: str, rows: list[dict[str, Any]] | None = None, **how: Any
) -> Sent:
    how.setdefault("checkpoint", str(Path(store).parent / "checkpoint"))
    return send(
        source=store, to=there.namesrv, row=(rows if rows is not None else []).append, **how
    )


@pytest.mark.parametrize("batch", [1, 5, 32])
@pytest.mark.parametrize("ordered", [False, True])
def test_all_are_sent_once_and_then_no_more(store: str, batch: int, ordered: bool) -> None:
    rows: list[dict[str, Any]] = []
    with cluster("ab") as there:
        done = sending(there, store, rows, batch=batch, ordered=ordered)
        again = sending(there, store, batch=batch, ordered=ordered)
        assert sorted(there.bodies) == sorted(bodies())
        assert (done.sent, done.failed, again.sent, again.before) == (12, 0, 0, 12)
        assert {row["status"] for row in rows} == {"sent"}
        assert [row["queueOffset"] for row in rows if row["queueId"] == 1] == list(range(6))
        if ordered:  # each queue's into one, in order
            parts = [each.bodies for each in there.brokers.values()]
            assert parts == [bodies(), []]
            assert {(q, row["toQueue"]) for row in rows for q in [row["queueId"]]} == {
                (0, 0), (1, 1)}  # fmt: skip


def test_a_batch_has_one_queue_of_a_source_in_order_and_any_else(store: str) -> None:
    with cluster() as there:
        sending(there, store, ordered=True)
        assert {asked.code for asked in there.asked} & {SEND, BATCH} == {SEND}  # they alternate
    with cluster() as there:
        sending(there, store, checkpoint=store + ".other")
        assert [asked.code for asked in there.asked if asked.code in (SEND, BATCH)] == [BATCH]


@pytest.mark.parametrize("code", [BUSY, UNAVAILABLE, DROP, NO_PERMISSION])
def test_another_broker_takes_what_one_does_not(store: str, code: Any) -> None:
    with cluster("ab") as there:
        there.does = lambda broker, asked: STORE if broker.name == "b" else code
        done = sending(there, store, batch=1)
        assert there.brokers["b"].bodies == bodies()
        assert (done.sent, done.failed) == (12, 0)
        assert bool(done.twice) == (code == DROP)


@pytest.mark.parametrize("batch", [1, 32])
def test_what_is_stored_before_the_connection_is_lost_is_found_in_its_queue(store, batch) -> None:
    lost: list[int] = []
    with cluster() as there:
        there.does = lambda broker, asked: STORE if lost else lost.append(1) or LOSE
        done = sending(there, store, batch=batch)
        assert sorted(there.bodies) == sorted(bodies())
        assert (done.sent, done.twice) == (12, [])


def test_a_busy_broker_is_asked_again_and_given_up_in_the_end(store: str) -> None:
    asked: list[int] = []
    with cluster() as there:
        there.does = lambda broker, request: BUSY if asked.append(1) or len(asked) < 3 else STORE
        assert sending(there, store).sent == 12
        there.does = lambda broker, request: BUSY
        with pytest.raises(
            PeerFailed, match=r"topic T: a: refused by the test \(code 2\); given up"
        ):
            sending(there, store, checkpoint=store + ".other")


def test_a_message_that_is_refused_fails_alone_and_is_tried_again_by_the_next_run(store) -> None:
    bad = b"body 4"
    rows: list[dict[str, Any]] = []
    with cluster() as there:
        there.does = lambda broker, asked: ILLEGAL if bad in (asked.body or b"") else STORE
        done = sending(there, store, rows)
        assert (done.sent, done.failed) == (11, 1)
        assert [row["remark"] for row in rows if row["status"] == "failed"] == [
            "a: refused by the test (code 13)"
        ]
        there.does = lambda broker, asked: STORE
        done = sending(there, store)
        assert (done.sent, done.failed, done.before) == (1, 0, 11)
        assert sorted(there.bodies) == sorted(bodies())


def test_a_broker_that_lost_its_queue_s_end_gets_no_batch_twice(store: str) -> None:
    """Its power was cut: what was noted of its queues before is not so any more."""
    requests: list[int] = []
    with cluster(queues=1) as there:

        def does(broker: Any, asked: Any) -> str:
            requests.append(1)
            if len(requests) == 2:
                broker.queues["T", 0].clear()
                return DROP
            return LOSE if len(requests) == 3 else STORE

        there.does = does
        done = sending(there, store, batch=4)
        assert (len(there.bodies), done.twice) == (12, [])


def test_a_queue_that_cannot_be_read_gets_no_batch(store: str) -> None:
    with cluster() as there:
        there.brokers["a"].readable = False
        sending(there, store)
        assert BATCH not in {asked.code for asked in there.asked}
        assert there.bodies == bodies()


def test_an_answer_that_a_slave_is_away_is_a_message_stored(store: str) -> None:
    with cluster() as there:
        original = there.brokers["a"]._stored
        there.brokers["a"]._stored = (  # type: ignore[method-assign]
            lambda asked: original(asked)._replace(code=SLAVE_AWAY)  # type: ignore[union-attr]
        )
        rows: list[dict[str, Any]] = []
        assert sending(there, store, rows, batch=1).sent == 12
        assert {row["remark"] for row in rows} == {"SLAVE_NOT_AVAILABLE"}


class Killed(BaseException):
    """Ends a run as a signal does."""


@pytest.mark.parametrize("batch", [1, 5])
@pytest.mark.parametrize("stored", [False, True])
@pytest.mark.parametrize("readable", [False, True])
def test_a_killed_run_goes_on_with_one_message_twice_at_most(
    store: str, batch: int, stored: bool, readable: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed at every second request, before or after the broker stored it."""
    real, requests = sender.Cluster.ask, list[int]()

    def ask(self: Any, address: Any, command: Any) -> Any:
        requests.extend([1] if command.code in (SEND, BATCH) else [])
        if command.code in (SEND, BATCH) and len(requests) % 2:
            if stored:
                real(self, address, command)
            raise Killed
        return real(self, address, command)

    monkeypatch.setattr(sender.Cluster, "ask", ask)
    kills, done = 0, None
    with cluster() as there:
        there.brokers["a"].readable = readable
        while done is None:
            try:
                done = sending(there, store, batch=batch)
            except Killed:
                kills += 1
        found = there.bodies
    twice = len(found) - len(set(found))
    assert set(found) == set(bodies())
    assert kills > (1 if batch > 1 else 4)
    assert twice <= len(done.twice) <= kills
    assert not (readable and twice)


def test_a_batch_of_which_nobody_knows_whether_it_was_stored_is_not_sent_again(store: str) -> None:
    with cluster() as there:
        broker = there.brokers["a"]

        def does(_: Any, asked: Any) -> str:
            broker.readable = False
            return LOSE

        there.does = does
        with pytest.raises(
            PeerFailed, match="nobody knows whether 12 messages under way were stored"
        ):
            sending(there, store)
        with pytest.raises(PeerFailed, match="nobody knows"):
            sending(there, store)
        broker.readable = True
        done = sending(there, store)
        assert (done.sent, done.twice, len(there.bodies)) == (12, [], 12)


def test_a_checkpoint_is_of_one_send_and_one_run(store: str, tmp_path: Path) -> None:
    path = str(tmp_path / "checkpoint")
    with cluster() as there:
        sending(there, store, topic="T", queue=0)
        with pytest.raises(StoreError, match="is the checkpoint of another source, selection"):
            sending(there, store, topic="T", queue=1)
        with open(path, "ab") as file:  # killed within a line
            file.write(b'{"send": [[')
        assert sending(there, store, topic="T", queue=0).before == 6
        assert all(map(json.loads, Path(path).read_text().splitlines()))
        held = sender.Checkpoint(str(tmp_path / "held"), {})
        with pytest.raises(StoreError, match="another `reput send` has this checkpoint"):
            sender.Checkpoint(str(tmp_path / "held"), {})
        held.close()
        for raw in (b"a note without a line's end", b"\xff\n", b"[]\n", b"{}\n",
                    b'{"times":[]}\n{"sent":[7]}\n', b"[" * 99_999 + b"\n"):  # fmt: skip
            (tmp_path / "other").write_bytes(raw)
            with pytest.raises(
                StoreError, match=r"is (no checkpoint of|the checkpoint of another)"
            ):
                sending(there, store, checkpoint=str(tmp_path / "other"))
            assert (tmp_path / "other").read_bytes() == raw


def test_in_order_nothing_overtakes_what_failed(store: str) -> None:
    """What follows in its queue fails with it, and a later run sends it in order."""
    for batch in (1, 5):
        rows: list[dict[str, Any]] = []
        how: Any = {"ordered": True, "batch": batch, "checkpoint": f"{store}.{batch}"}
        with cluster() as there:
            there.does = lambda _, asked: ILLEGAL if b"body 4" in (asked.body or b"") else STORE
            done = sending(there, store, rows, **how)
            assert (done.sent, done.failed) == (8, 4)
            held = [row["remark"] for row in rows if row["status"] == "failed"][1:]
            assert held == ["held back: a message before it in its queue failed"] * 3
            there.does = lambda broker, asked: STORE
            assert sending(there, store, **how).sent == 4
            for number in (0, 1):
                assert [b for b in there.bodies if b in bodies(range(number, 12, 2))] == bodies(
                    range(number, 12, 2)
                )


def test_in_order_a_queue_keeps_its_queue_though_the_route_changes(store: str) -> None:
    """In the same run and in one that goes on."""
    rows: list[dict[str, Any]] = []
    with cluster("ab", queues=1) as there:

        def does(broker: Any, asked: Any) -> Any:
            if len(there.bodies) == 4 and there.queue_number == 1:
                there.queue_number = 3
                return BUSY
            if len(there.bodies) == 8:
                raise OSError
            return STORE

        there.does = does
        with pytest.raises(PeerFailed):
            sending(there, store, rows, ordered=True)
        there.does = lambda broker, asked: STORE
        sending(there, store, rows, ordered=True)
    queues = {(row["queueId"], row["broker"], row["toQueue"]) for row in rows}
    assert queues == {(0, "a", 0), (1, "b", 0)}


def test_what_was_stored_is_not_sent_again_if_nothing_more_can_be_written(
    store: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A full disk under the checkpoint, and an output that was closed (`| head`)."""
    real = os.write

    def full(file: int, raw: bytes) -> int:
        if raw.startswith(b'{"sent"'):
            real(file, raw[:9])
            raise OSError(28, "No space left on device")
        return real(file, raw)

    with cluster() as there:
        monkeypatch.setattr(os, "write", full)
        with pytest.raises(OSError, match="No space left"):
            sending(there, store, batch=1)
        monkeypatch.setattr(os, "write", real)

        def closed(row: Any) -> None:
            raise BrokenPipeError

        path = str(Path(store).parent / "checkpoint")
        with pytest.raises(BrokenPipeError):
            send(store, there.namesrv, row=closed, checkpoint=path, batch=1)
        done = sending(there, store)
        assert (sorted(there.bodies), done.twice) == (sorted(bodies()), [])


@pytest.mark.parametrize("same", [False, True])
def test_a_source_that_became_another_is_refused(store: str, same: bool) -> None:
    """Of other places, or of the same places but other messages."""
    with cluster() as there:
        sending(there, store)
        shutil.rmtree(store)
        built, other = Built(), properties(("UNIQ_KEY", "x"))
        for number in range(20):
            body = b"x" * ((3 if number < 10 else 5) if same else 9)
            built.put("T", 0, properties=other, body=body)
        built.derive().write(Path(store))
        with pytest.raises(StoreError, match="another source than when its checkpoint"):
            sending(there, store)
        assert len(there.bodies) == 12


def test_copies_in_the_source_s_own_topic_are_not_sent_again(store: str) -> None:
    """By a run that goes on, or by one after its end; what others send there meanwhile is."""

    tail: list[bytes | None] = []  # properties of the copies, and None for what others send

    def grown(others: int) -> None:
        shutil.rmtree(store)
        copies = [fields["i"].encode() for _, _, fields in there.brokers["a"].sent]
        tail.extend(each for each in copies if each not in tail)
        tail.extend([None] * others)
        built = Built()
        for _ in range(6):
            built.put("T", 0, keys="k").put("T", 1, keys="k")
        for each in tail:
            built.put("T", 0, **({} if each is None else {"properties": each}))  # type: ignore[arg-type]
        built.derive().write(Path(store))

    with cluster() as there:
        there.does = lambda broker, asked: STORE if len(there.bodies) < 4 else BUSY
        with pytest.raises(PeerFailed):
            sending(there, store, batch=1)
        there.does = lambda broker, asked: STORE
        for others, sent in ((1, 9), (0, 0), (2, 2)):
            grown(others)
            assert sending(there, store, batch=1).sent == sent


def test_until_is_another_time_once_a_run_has_come_to_its_end(store: str) -> None:
    with cluster() as there:
        there.does = lambda broker, asked: STORE if len(there.bodies) < 4 else BUSY
        for seconds, sent in ((6, None), (9, 2), (9, 3), (12, 3)):
            until = Ago(T0 + 1000 * seconds)
            if sent is None:
                with pytest.raises(PeerFailed):
                    sending(there, store, batch=1, until=until)
                there.does = lambda broker, asked: STORE
            else:
                assert sending(there, store, batch=1, until=until).sent == sent


def test_letters_that_are_dead_again_wait_for_the_next_run(store: str, tmp_path: Path) -> None:
    now = time.time_ns() // 1_000_000 + 60_000  # they came while it ran
    dead = properties(("RETRY_TOPIC", "T"), ("UNIQ_KEY", "u"))
    built = Built().put("%DLQ%g", 0, 2, properties=dead)
    built.put("%DLQ%g", 0, 3, properties=dead, born_timestamp=now, store_timestamp=now)
    with cluster() as there:
        source = str(built.derive().write(tmp_path / "letters"))
        assert sending(there, source, topic="%DLQ%g", to_topic="ORIGIN").sent == 2


def test_what_a_batch_cannot_hold_is_sent_alone(store: str, tmp_path: Path) -> None:
    long = properties(("UNIQ_KEY", "u"), ("a", "x" * 32_700))
    built = (Built({**SIZES, "mappedFileSizeCommitLog": 1 << 16}).put("T", 0, 2)
             .put("T", 0, 1, properties=long).put("T", 0, 2))  # fmt: skip
    with cluster() as there:
        built.derive().write(tmp_path / "long")
        sending(there, str(tmp_path / "long"))
        codes = [asked.code for asked in there.asked if asked.code in (SEND, BATCH)]
        assert codes == [BATCH, SEND, BATCH]


def test_what_was_under_way_and_is_no_longer_there_is_said(store: str) -> None:
    """Requests hold no more messages than a second may have."""
    said: list[str] = []
    with cluster() as there:
        there.does = lambda broker, asked: DROP if len(there.bodies) == 3 else STORE
        with pytest.raises(PeerFailed):
            sending(there, store, rate=1000, batch=1)
        shutil.rmtree(store)
        Built(start=1 << 20).put("T", 0, 2).derive().write(Path(store))
        there.does = lambda broker, asked: STORE
        assert sending(there, store, tell=said.append, rate=1).sent == 2
        assert len(said) == 1
        assert "was under way when a run ended" in said[0]
        assert {asked.code for asked in there.asked} & {SEND, BATCH} == {SEND}
