"""What is told of a store whose files expire, and the stores of which nothing may be deleted."""

import json
import os
from collections.abc import Callable
from datetime import timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

from reput.broker.change.expire import FileToDelete
from reput.jobs.cli import main
from reput.jobs.expire import expire
from reput.jobs.in_place.expire import (
    Even,
    Expired,
    Needed,
    When,
    expire_store,
    needed,
    plan_expiry,
)
from reput.jobs.opening.held import held_store
from reput.store_format.discover.store import StoreAt
from reput.store_format.faults import StoreChanged, StoreError
from reput.store_format.notes import Progress
from reput.store_format.release.settings import SettingError
from tests.damaged import START, Damaged, damaged, messages
from tests.in_process import STORE, as_text, storage_of
from tests.logs.encoder import Message, properties
from tests.store_format.damage.generator import derived_of
from tests.store_format.query.popped import POPPED, REVIVE, ack, point

HOUR = 3_600_000
NOW = 1_800_000_000_000
LOG = damaged(messages(100))  # three segments


def to_delete(many: int, length: int = 10) -> list[FileToDelete]:
    return [FileToDelete(f"f{n}", length, "72 hours") for n in range(many)]


def about(**more: Any) -> Expired:
    return Expired("s", "5.3.3", more.pop("occasion", "it is 04h"), 4096, **more)


def test_the_exit_code_says_whether_there_was_something_to_delete(monkeypatch, tmp_path) -> None:
    with pytest.raises(SettingError, match="--backed-up: expected a folder or URL"):
        expire("s", backed_up="")
    (tmp_path / "commitlog").mkdir()
    for files, done, code in ((0, False, 0), (1, False, 1), (1, True, 0), (0, True, 0)):
        told = about(files=to_delete(files), done=done)
        monkeypatch.setattr("reput.jobs.expire.expire", lambda _, it=told: it)
        assert main(["expire", str(tmp_path), "--dry-run"]) == code


def test_people_and_programs_are_told_what_goes_and_who_needs_a_segment() -> None:
    assert about(occasion="").text().splitlines() == [
        "nothing to delete in s", "  occasion  none: not the hour of deleteWhen, the disk has room",
        "  log       begins at 4,096",
    ]  # fmt: skip
    assert (about().needed, about().bytes) == (False, 0)
    told = about(kept=[Needed(7, "a"), Needed(9000, "b")], kept_segments=1,
                 segments=to_delete(1), warnings=["w"])  # fmt: skip
    assert told.text().splitlines()[-4:] == [
        "  kept      1 expired segment, which somebody needs:",
        "            a, from 7 on", "            b, from 9,000 on", "  warning   w",
    ]  # fmt: skip
    told.done = True
    assert told.text().startswith("deleted 1 segment and 0 queue or index files of s: 10 bytes")
    told = about(segments=to_delete(1), kept=[Needed(7, "a")]).as_json()
    assert json.loads(json.dumps(told)) == told
    assert told["segments"] == [{"path": "f0", "length": 10, "why": "72 hours"}]
    assert told["kept"] == [{"offset": 7, "who": "a"}]
    assert (told["bytes"], told["needed"]) == (10, True)


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """A log of which the first segment is 200 hours old, and the others are of now."""
    (tmp_path / "store" / "commitlog").mkdir(parents=True)
    for start, raw in LOG.segments.items():
        path = tmp_path / "store" / "commitlog" / f"{start:020d}"
        path.write_bytes(raw)
        os.utime(path, ns=((NOW - (200 * HOUR if not start else 0)) * 1_000_000,) * 2)
    return tmp_path / "store"


def expired(
    store: Path, dry_run: bool, even: Even, confirm: Callable[[str], None] = lambda _: None,
    **more: str,
) -> Expired:  # fmt: skip
    with held_store(str(store), dry_run) as held:
        planned = plan_expiry(held, held.at("5.3.3", as_text(LOG.settings) | more))
        when = When(True, NOW, lambda path: 0.1)
        return expire_store(held, planned, even, None, when, Progress(), confirm)


def test_the_hour_of_deletewhen_is_in_the_zone_of_tz(store: Path) -> None:
    hours = NOW // HOUR % 24
    for late in (0, 5, -7):
        about = expire(
            str(store), rocketmq="5.3.3", dry_run=True, now=NOW, used=lambda _: 0.1,
            settings=as_text(LOG.settings) | {"deleteWhen": f"{(hours + late) % 24:02}"},
            zone=timezone(timedelta(hours=5)),
        )  # fmt: skip
        assert about.needed == (late == 5)


@pytest.mark.parametrize("locked", [False, True])
def test_what_somebody_needs_since_the_question_stays(store: Path, locked: bool) -> None:
    """Nobody holds a store without a lock file meanwhile; in one with it no broker can have run."""
    if locked:
        (store / "lock").touch()

    def read_again(_: str) -> None:
        offsets = store / "config" / "consumerOffset.json"
        offsets.parent.mkdir(exist_ok=True)
        offsets.write_text('{"offsetTable": {"T@g": {"0": 0, "1": 0}}}')

    if locked:
        assert expired(store, False, Even(), read_again).done
        return
    with pytest.raises(StoreChanged, match="nothing is deleted: run it again"):
        expired(store, False, Even(), read_again)
    assert len(list((store / "commitlog").iterdir())) == 3


@pytest.mark.parametrize(("break_it", "why"), [
    (lambda store: (store / "abort").touch(), "use `reput recover` first"),
    (lambda store: (store / "index").symlink_to(store / "commitlog"), "link"),
])  # fmt: skip
def test_of_a_store_that_crashed_or_has_links_nothing_is_deleted(break_it, why, store) -> None:
    with pytest.raises(SettingError):
        expired(store, True, Even(), fileReservedTime="soon")
    break_it(store)
    with pytest.raises(StoreError, match=why):
        expired(store, False, Even(unread=True))
    assert len(list((store / "commitlog").iterdir())) == 3


# --- Who still needs a message: a group that has not read it, or nobody knows that it was read.
OFFSETS = f"{STORE}/config/consumerOffset.json"

ONLY_UNREAD = Even(delayed=True, pending=True)


def log_of(*topics: str, each: int = 5) -> Damaged:
    """So many messages of each topic's queue 0, one topic after the other."""
    made = [Message(topic, 0, n, b"x", store_timestamp=START) for topic in topics
            for n in range(each)]  # fmt: skip
    return damaged(made, 1 << 16)


NEEDED_LOG = log_of("A", "%RETRY%g")


def asked(
    read: dict[str, dict[str, int]], even: Even = ONLY_UNREAD,
    log: Damaged = NEEDED_LOG, files: dict[str, bytes] | None = None,
) -> list[Needed]:  # fmt: skip
    storage = storage_of(log.log)
    storage.files |= derived_of(log.log) if files is None else files
    storage.files[OFFSETS] = json.dumps({"offsetTable": read}).encode()
    at: Any = StoreAt(storage, STORE, "5.3.3", as_text(log.settings))
    return needed(at, "5.3.3", even, Progress(), lambda _: None)


ALL_READ = {"%RETRY%g@g": {"0": 5}}


@pytest.mark.parametrize("topic", ["%RETRY%g_A", "%RETRY%g+A"])
def test_retries_of_pop_that_nobody_has_popped_yet_count_as_unread(topic: str) -> None:
    """A topic of them begins with the group's name, a sign and the topic that it popped."""
    log = log_of("A", topic, "%RETRY%gg_A")
    (found,) = asked({"A@g": {"0": 5}}, log=log)
    assert found.offset == log.places[5]


POPPED_ALL = {"A@g": {"0": 5}, **ALL_READ}


def with_points(*bodies: tuple[str, Any]) -> Damaged:
    """Five messages, and what pop wrote of them: (tags, body)."""
    made = [Message("A", 0, n, b"x", store_timestamp=START) for n in range(5)]
    made += [Message(REVIVE, 0, n, json.dumps(body).encode(), properties(("TAGS", tags)), START)
             for n, (tags, body) in enumerate(bodies)]  # fmt: skip
    return damaged(made)


IN_ORDER = {"popTime": POPPED, "i": 60_000, "o": [2, 1], "cm": 0b01, "l": 0}


@pytest.mark.parametrize(("bodies", "orders", "first"), [
    ([("ck", point(1, 3, topic="A", q=0))], {}, 1),
    ([("ck", point(1, 3, topic="A", q=0, sp=True)), ("ack", ack(1, 1, t="A", q=0))], {}, 2),
    (
        [("ck", point(1, 2, topic="A", q=0)), ("bAck", {**ack(1, -1, t="A", q=0), "aol": [1, 2]})],
        {}, None,
    ),
    ([("ck", point(1, 3, topic="A", q=0, bm=0b11))], {}, 3),
    ([("ck", point(99, 3, topic="A", q=0))], {}, None), ([], {"A@g": {"0": IN_ORDER}}, 3),
    ([], {"A@g": {"1": IN_ORDER}}, None),
])  # fmt: skip
def test_what_was_popped_and_not_acknowledged_is_needed(bodies, orders: Any, first) -> None:
    log = with_points(*bodies)
    files = derived_of(log.log)
    files[f"{STORE}/config/consumerOrderInfo.json"] = json.dumps({"table": orders}).encode()
    found = asked(POPPED_ALL, log=log, files=files)
    assert [each.offset for each in found][:1] == ([] if first is None else [log.places[first]])
    if found:
        assert f"has popped, and not acknowledged, queueOffset {first} of topic 'A'" in found[0].who
    even = ONLY_UNREAD._replace(groups=frozenset("g"))
    assert asked(POPPED_ALL, even, log=log, files=files) == []


def test_check_points_are_read_from_queues_and_from_the_log_where_queues_lack_some(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    log = with_points(("ck", point(1, 3, topic="A", q=0)))
    files = {p: raw for p, raw in derived_of(log.log).items() if REVIVE not in p}
    assert [each.offset for each in asked(POPPED_ALL, log=log, files=files)] == log.places[1::4]
    monkeypatch.setattr("reput.store_format.query.by_queue.scan", None)  # reads the log
    assert [each.offset for each in asked(POPPED_ALL, log=log)] == [log.places[1]]
