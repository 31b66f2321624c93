"""`Watch`: each look finds what a first look would find, and reads only what is new."""

import gc
import json
import struct
import weakref
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from reput.jobs.opening.questions import open_store
from reput.store_format.fate.watch import Watch
from reput.store_format.files.adapters import CountedReads
from reput.store_format.files.local import LocalStorage
from reput.store_format.notes import Notes
from tests.built import T0, Built, write
from tests.store_format.fate.logs import SEGMENT, SmallLog

GIVEN = {"mappedFileSizeCommitLog": str(SEGMENT), "mappedFileSizeConsumeQueue": "200"}


@pytest.fixture
def watch() -> Iterator[Callable[..., tuple[Watch, CountedReads]]]:
    with ExitStack() as stack:

        def made(store: Path, given: dict[str, str] = GIVEN) -> tuple[Watch, CountedReads]:
            files: Any = CountedReads(LocalStorage())
            settings = {"settings": given, "rocketmq": "5.3.3", "storage": files}
            found = Watch(lambda: open_store(str(store), **settings)._opened, Notes())
            stack.callback(found.close)
            return found, files

        yield made


def sums(found: Watch) -> tuple[Any, ...]:
    return (found.ends(), found.put, found.held(), dict(found.waiting), found.groups, found.log_end,
        found.oldest, found.newest, found.damaged)  # fmt: skip


def half_and_delayed(log: SmallLog, n: int) -> None:
    """Of each kind some that ends later, some that never does."""
    half = log.half(f"h{n}")
    log.delay(f"d{n}", 5)
    out = log.now + 3_600_000
    log.timer(f"t{n}", out)
    log.timer(f"r{n}", out)
    log.put("Orders", n % 3, ("KEYS", f"k{n}"))
    if n % 2:
        log.commit(half, f"h{n}")
        log.op(b"%d," % log.positions["RMQ_SYS_TRANS_HALF_TOPIC", 0])
        log.deliver(f"d{n}")
        log.timer(f"x{n}", out, ("TIMER_DEL_UNIQKEY", f"r{n}"))
    log.now += 40_000


def test_each_look_finds_what_a_first_one_does(watch, tmp_path: Path) -> None:
    log, seen = SmallLog(), None
    for n in range(12):
        half_and_delayed(log, n)
        config = {"config/delayOffset.json": json.dumps({"offsetTable": {"5": n + 1}}).encode()}
        write(tmp_path, {p.removeprefix("store/"): c for p, c in log.files().items()} | config)
        if seen is None:
            seen, _ = watch(tmp_path)
        if n % 3 == 1:  # a look that failed loses nothing
            settle, seen._settle_halves = seen._settle_halves, fails
            with pytest.raises(OSError, match="for a test"):
                seen.look()
            seen._settle_halves = settle
        seen.look()
        first, _ = watch(tmp_path)
        first.look()
        assert sums(seen) == sums(first)
        # what is settled is kept nowhere
        kept = seen.waiting["level", False] + seen.waiting["level", True]
        kept += seen.waiting["timer", False] + seen.waiting["timer", True]
        assert (sum(map(len, seen._halves.marks)) == seen.waiting["half", True]
            + seen.waiting["half", False])  # fmt: skip
        assert sum(map(len, seen._delays.marks)) <= kept + 2 * n
    assert seen.waiting["half", True] > 2
    assert seen.waiting["timer", False] == 18  # 12 and 12, without 6 that were recalled


def test_a_delivery_is_kept_until_its_broker_has_noted_it(watch, tmp_path: Path) -> None:
    log, waits = SmallLog(), []
    log.delay("d", 5)
    for noted in (0, 0, 1, 1):
        config = {"config/delayOffset.json": json.dumps({"offsetTable": {"5": noted}}).encode()}
        write(tmp_path, {p.removeprefix("store/"): c for p, c in log.files().items()} | config)
        if not waits:
            found, _ = watch(tmp_path)
            log.deliver("d")
        else:
            log.put("T")
        found.look()
        waits.append((sum(found.waiting.values()), sum(map(len, found._delays.marks))))
    assert waits == [(1, 1), (0, 2), (0, 0), (0, 0)]


def test_a_still_store_is_read_no_more_and_lags_follow_offsets(watch, tmp_path: Path) -> None:
    built = Built().put("T", count=60).derive()
    offsets = {"offsetTable": {"T@g": {"0": 17}, "T@h": {"0": 60}, "Gone@g": {"0": 4}}}
    store = built.file("config/consumerOffset.json", json.dumps(offsets)).write(tmp_path)
    found, files = watch(store, built.given())
    found.look()
    groups, before = found.groups, files.read
    assert [(each.group, each.lag, each.lag_seconds) for each in groups] == [
        ("g", 43, 59 - 17), ("h", 0, 0), ("g", -4, 0)]  # fmt: skip
    for _ in range(1000):
        found.look()
    assert found.groups == groups
    assert files.read - before < 100
    built = Built().put("T", count=4).derive()
    offsets = json.dumps({"offsetTable": {"T@g": {"0": 4}}})
    built.file("config/consumerOffset.json", offsets).write(tmp_path / "2")
    found, _ = watch(tmp_path / "2", built.given())
    found.look()
    built.put("T", count=3).write(tmp_path / "2")
    found.look()
    assert [(each.lag, each.lag_seconds) for each in found.groups] == [(3, 6 - 3)]
    offsets = json.dumps({"offsetTable": {"T@g": {"0": 6}}})
    write(tmp_path / "2", {"config/consumerOffset.json": offsets.encode()})
    found.look()
    assert [each.lag for each in found.groups] == [1]
    assert [each.lag_seconds for each in found.groups] == [None]  # nobody dispatches it
    # As RocketMQ fills a file up to the queue's first position (fillPreBlank).
    built = Built().put("T", count=9).derive()
    built.damage("consumequeue/T/0", 0, struct.pack(">qiq", 0, 0x7FFFFFFF, 0) * 4)
    offsets = json.dumps({"offsetTable": {"T@g": {"0": 1}}})
    found, _ = watch(
        built.file("config/consumerOffset.json", offsets).write(tmp_path / "3"), built.given()
    )
    found.look()
    assert [each.lag_seconds for each in found.groups] == [8 - 4]


def test_a_store_that_is_opened_anew_leaves_nothing(watch, tmp_path: Path) -> None:
    """Else a list of all segments, for each that is new, until Python looks for circles."""
    built, opened = Built(), list[Any]()
    found, _ = watch(built.put("T").write(tmp_path), built.given())
    gc.disable()
    try:
        for _ in range(9):
            built.put("T", count=8).put("SCHEDULE_TOPIC_XXXX").derive().write(tmp_path)
            found.look()
            opened.append(weakref.ref(found.opened))
        assert len({*map(id, opened)}) > 4
        assert {each() for each in opened} == {None, found.opened}
        assert len(found._delays.ended) == len(found._halves.ended) == 1
    finally:
        gc.enable()


def torn(raw: bytes, places: list[int]) -> bytes:
    """The last record as it stands while it is written."""
    return raw[: places[-1] + 40] + bytes(len(raw) - places[-1] - 40)


def stale(raw: bytes, places: list[int]) -> bytes:
    """After the last record, those of an older life of the log."""
    old = bytearray(raw)
    for place in places:
        old[place + 56 : place + 64] = (T0 - 1000).to_bytes(8, "big")
    return raw[: places[-3]] + bytes(old[places[-3] :])


@pytest.mark.parametrize("writing", [torn, stale])
def test_where_a_broker_is_writing_nothing_is_damaged(writing, watch, tmp_path: Path) -> None:
    built = Built({"mappedFileSizeCommitLog": 1 << 16}).put("T", count=6)
    store = built.write(tmp_path)
    (segment,) = (store / "commitlog").iterdir()
    built.put("T", count=4)
    raw = built.contents()["commitlog/" + segment.name]
    found, files = watch(store, built.given())
    found.look()
    segment.write_bytes(writing(raw, built.places()))
    whole = 9 if writing is torn else 7
    for _ in range(5):
        found.look()
        assert (found.put["T"][0], found.damaged) == (whole, 0)
    before = files.read
    found.look()
    assert files.read == before  # it stays, and is read no more
    segment.write_bytes(raw)
    found.look()
    assert (found.put["T"][0], found.damaged) == (10, 0)


def test_a_clock_set_back_or_another_store_in_its_place_is_looked_at(watch, tmp_path: Path) -> None:
    built = Built({"mappedFileSizeCommitLog": 1 << 16}).put("T", count=6)
    store = built.write(tmp_path)
    found, _ = watch(store, built.given())
    found.look()
    built.put("T", count=2, store_timestamp=T0)
    for n in range(6):
        built.put("T", store_timestamp=T0 + n).write(tmp_path)
        found.look()
    assert found.put["T"][0] == 14
    built = Built().put("T", count=60)
    store = built.write(tmp_path / "1")
    found, _ = watch(store, built.given())
    found.look()
    for name in (store / "commitlog").iterdir():
        name.unlink()
    Built().put("U", count=2).write(tmp_path / "1")
    found.look()
    assert found.put == {"U": (2, found.put["U"][1])}
    built = Built().put("T", count=60).put("U", count=3)
    store = built.derive().write(tmp_path / "2")
    found, _ = watch(store, built.given())
    found.look()
    assert found.held() == found.put
    sorted((store / "commitlog").iterdir())[0].unlink()
    gone = sum(place < 2048 for place in built.places())
    found.look()
    first, _ = watch(store, built.given())
    first.look()
    assert found.held() == first.held() == first.put
    assert [found.put["T"][0], first.put["T"][0]] == [60, 60 - gone]
    assert found.oldest == T0 + gone * 1000


def test_damage_is_counted_once_the_log_went_on_behind_it(watch, tmp_path: Path) -> None:
    built = Built().put("T", count=6)
    store = built.write(tmp_path)
    found, _ = watch(store, built.given())
    found.look()
    built.put("T", count=40)
    places = built.places()
    built.damage("commitlog", places[8], b"nothing!").write(tmp_path)
    for _ in range(4):
        found.look()
        built.put("T").write(tmp_path)
    first, _ = watch(store, built.given())
    first.look()
    found.look()
    assert found.damaged == first.damaged == 1
    assert found.put == first.put


def fails(*_: object) -> None:
    raise OSError("for a test")


def test_a_topic_made_again_begins_anew_and_one_of_which_nothing_is_left_goes(
    watch, tmp_path
) -> None:
    built = Built().put("T", count=9)
    found, _ = watch(built.write(tmp_path), built.given())
    found.look()
    for offset in range(3):
        built.put("T", queue_offset=offset)
    built.put("T", sys_flag=4, queue_offset=0)  # prepared: in no queue, its queueOffset is 0
    first, _ = watch(built.write(tmp_path), built.given())
    for each in (found, first):
        each.look()
        assert each.ends() == {("T", 0): 3}
    built.put("T", queue_offset=1).write(tmp_path)  # repeated: it is in no queue
    found.look()
    assert found.ends() == {("T", 0): 3}
    built = Built().put("Gone", count=4).put("T", count=60).derive().remove("consumequeue/Gone")
    found, _ = watch(built.write(tmp_path / "1"), built.given())
    found.look()
    assert found.ends() == {("Gone", 0): 4, ("T", 0): 60}
    sorted((tmp_path / "1" / "commitlog").iterdir())[0].unlink()
    found.look()
    assert (found.ends(), list(found.put)) == ({("T", 0): 60}, ["T"])
    built, delayed = Built(), b"REAL_TOPIC\x01T\x02REAL_QID\x010\x02UNIQ_KEY\x01%d"
    for n in range(40):
        built.put("SCHEDULE_TOPIC_XXXX", properties=delayed % n)
    found, _ = watch(built.write(tmp_path / "2"), built.given())
    found.look()
    assert sum(found.waiting.values()) == 40
    sorted((tmp_path / "2" / "commitlog").iterdir())[0].unlink()
    found.look()
    assert sum(found.waiting.values()) == sum(place >= 2048 for place in built.places())


def test_ends_and_lags_are_those_that_queues_and_groups_show(watch, tmp_path: Path) -> None:
    """The log lost T's last messages, the clock was set back at last, there is no queue T/7."""
    built = Built().put("T", count=30)
    last = built.places()[-1] // 2048
    built.put("U", count=30).put("V", store_timestamp=T0).derive()
    offsets = {"T@g": {"0": 4, "7": 5}, "Gone@g": {"0": 4}, "U@h": {"0": 9}}
    built.file("config/consumerOffset.json", json.dumps({"offsetTable": offsets})).write(tmp_path)
    sorted((tmp_path / "commitlog").iterdir())[last].unlink()
    found, _ = watch(tmp_path, built.given())
    found.look()
    with open_store(str(tmp_path), settings=built.given()) as opened:
        rows = opened.queues()
        assert found.ends() == {(row.topic, row.queue_id): row.max_offset for row in rows}
        assert sorted(found.groups) == sorted(opened.groups())
    assert found.ends() == {("T", 0): 30, ("U", 0): 30, ("V", 0): 1}
    assert found.newest == max(row.max_timestamp for row in rows) == T0 + 59_000


def test_what_waits_follows_a_broker_s_notes_where_the_log_is_still(watch, tmp_path: Path) -> None:
    log = SmallLog()
    log.half("a")
    write(tmp_path, {p.removeprefix("store/"): c for p, c in log.files().items()})
    found, _ = watch(tmp_path)
    for _ in range(5):
        found.look()
    assert sum(found.waiting.values()) == 1
    checked = {"RMQ_SYS_TRANS_HALF_TOPIC@CID_RMQ_SYS_TRANS": {"0": 1}}
    config = json.dumps({"offsetTable": checked}).encode()
    write(tmp_path, {"config/consumerOffset.json": config})
    found.look()
    assert sum(found.waiting.values()) == 0
