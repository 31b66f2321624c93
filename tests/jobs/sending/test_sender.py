"""Each message is stored once, whatever brokers do; what may be there twice is said."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from reput.jobs.send import Sent, send
from reput.jobs.sending import sender
from reput.store_format.faults import PeerFailed, StoreError
from tests.built import Built
from tests.jobs.sending.fake_cluster import BATCH, DROP, LOSE, SEND, STORE, FakeCluster, cluster

BUSY, UNAVAILABLE, ILLEGAL, NO_PERMISSION, SLAVE_AWAY = 2, 14, 13, 16, 11


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {
        "_BACKOFF": (0.01, 0.02),
        "_SETTLED_SECONDS": 0.05,
        "_LOOK_SECONDS": 0.01,
    }.items():
        monkeypatch.setattr(sender, name, value)


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
    how.setdefault("patience", 0.3)
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
                (0, 0),
                (1, 1),
            }


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
        done = sending(there, store, batch=1, patience=5)
        assert there.brokers["b"].bodies == bodies()
        assert (done.sent, done.failed) == (12, 0)
        assert bool(done.twice) == (code == DROP)


@pytest.mark.parametrize("batch", [1, 32])
def test_what_is_stored_before_the_connection_is_lost_is_found_in_its_queue(
    store: str, batch: int
) -> None:
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


def test_a_message_that_is_refused_fails_alone_and_is_tried_again_by_the_next_run(
    store: str,
) -> None:
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
        size = os.path.getsize(path)
        with open(path, "ab") as file:  # killed within a line
            file.write(b'{"send": [[')
        assert sending(there, store, topic="T", queue=0).before == 6
        assert os.path.getsize(path) == size
        held = sender.Checkpoint(str(tmp_path / "held"), {}, [])
        with pytest.raises(StoreError, match="another `reput send` has this checkpoint"):
            sender.Checkpoint(str(tmp_path / "held"), {}, [])
        held.close()
        for raw in (
            b"\xff\n",
            b"[]\n",
            b"{}\n",
            b'{"times":[]}\n{"sent":[7]}\n',
            b"[" * 99_999 + b"\n",
        ):
            (tmp_path / "other").write_bytes(raw)
            with pytest.raises(
                StoreError, match=r"is (no checkpoint of|the checkpoint of another)"
            ):
                sending(there, store, checkpoint=str(tmp_path / "other"))
            assert (tmp_path / "other").read_bytes() == raw
