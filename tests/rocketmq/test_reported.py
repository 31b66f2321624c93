"""Situations of public reports on a store that the real RocketMQ wrote: whether it starts, and what
`check` says. docs/reports.md has a row of each."""

import shutil
from collections.abc import Callable, Iterator
from os import truncate as grow
from pathlib import Path
from typing import Any

import pytest

from reput import DamageFound, SettingError, check, rebuild
from reput.jobs.judging.shown import next_step
from reput.store_format.discover.delay_levels import SCHEDULE
from reput.store_format.log.records import store_timestamp_at
from tests.broker.writer.stores import RULES, stored_records
from tests.in_process import Session, as_text
from tests.reliability.hostile import linked as link
from tests.rocketmq.driver import Driver, remove_derived
from tests.rocketmq.puts import SIZES, assert_same, derived, put
from tests.trees import write_over as edit

pytestmark = pytest.mark.rocketmq
VERSION = "5.3.3"
GIVEN: dict[str, Any] = {"rocketmq": VERSION, "settings": as_text(SIZES)}
SEGMENT = SIZES["mappedFileSizeCommitLog"]
HOUR = 3_600_000
# A warm broker fills smaller index files within a millisecond, and then writes one twice.
FEW_FILES = {**SIZES, "maxIndexNum": 2000}


@pytest.fixture(scope="module")
def broker() -> Iterator[Driver]:
    with Driver(VERSION) as running:
        yield running


@pytest.fixture(scope="module")
def written(broker: Driver, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """700 messages in five segments, six queues of two files each, eleven index files."""
    store = tmp_path_factory.mktemp("reported") / "store"
    put(broker, store, 700)
    return store


def segment(store: Path, number: int) -> Path:
    return store / "commitlog" / f"{number * SEGMENT:020}"


def queue_file(store: Path, number: int) -> Path:
    return sorted((store / "consumequeue/T0/0").iterdir())[number]


def index_file(store: Path) -> Path:
    return sorted((store / "index").iterdir())[-1]


def swap(one: Path, other: Path) -> None:
    between = one.with_name("between")
    one.rename(between)
    other.rename(one)
    between.rename(other)


def expire(store: Path, many: int) -> None:
    for number in range(many):
        segment(store, number).unlink()


def forget(store: Path, name: str) -> None:
    expire(store, 2)
    shutil.rmtree(store / name)


SOUND, NOT, NEEDS = "sound", "NOT sound", "needs recovery"
Change = Callable[[Path], Any]
# (change, whether a broker starts, the state by `check`, what it names or says is next)
SITUATIONS: dict[str, tuple[Change, bool, str, str]] = {
    "as it was": (lambda s: None, True, SOUND, ""),
    "#3257": (lambda s: (s / "commitlog/bad-empty-file").touch(), True, SOUND, ""),
    "a copy .bak": (lambda s: shutil.copy(segment(s, 1), f"{segment(s, 1)}.bak"), False, NOT,
                    "move "),
    "a folder named as a segment": (lambda s: segment(s, 5).mkdir(), True, SOUND, ""),
    "a folder named as a queue file": (
        lambda s: (s / f"consumequeue/T0/0/{4000:020}").mkdir(), True, SOUND, ""),
    "19 digits": (lambda s: (s / f"commitlog/{5 * SEGMENT:019}").write_bytes(bytes(SEGMENT)), True,
                  NOT, "move "),
    "a file among topics": (lambda s: (s / "consumequeue/notes").touch(), True, SOUND, ""),
    "a folder of no topic": (lambda s: (s / "consumequeue/No/0").mkdir(parents=True), True, SOUND,
                             ""),
    "commitlog/ is a link": (lambda s: link(s / "commitlog"), True, SOUND, ""),
    "a queue is a link": (lambda s: link(s / "consumequeue/T0/0"), True, SOUND, ""),
    "a queue file is a link": (lambda s: link(queue_file(s, 1)), True, SOUND, ""),
    "a segment is a link": (lambda s: link(segment(s, 1)), True, SOUND, ""),
    "#7355": (lambda s: queue_file(s, 1).unlink(), True, NOT, "reput rebuild"),
    "alibaba#331": (lambda s: edit(queue_file(s, 1), 200, bytes(1800)), True, NOT, "reput rebuild"),
    "#7539": (
        lambda s: [(s / f"index/{int(index_file(s).name) + 1}").write_bytes(
            bytes(index_file(s).stat().st_size)) for _ in range(3)], True, NOT, "reput rebuild"),
    "the first queue file": (lambda s: queue_file(s, 0).unlink(), True, NOT, "reput rebuild"),
    "a topic's queues": (lambda s: shutil.rmtree(s / "consumequeue/T0"), True, NOT,
                         "reput rebuild"),
    "all queues": (lambda s: shutil.rmtree(s / "consumequeue"), True, NOT, "reput rebuild"),
    "index/": (lambda s: shutil.rmtree(s / "index"), True, NOT, "reput rebuild"),
    "a hole in a queue": (lambda s: edit(queue_file(s, 0), 200, bytes(200)), True, NOT,
                          "reput rebuild"),
    "a queue of garbage": (lambda s: edit(queue_file(s, 1), 0, bytes(range(1, 251)) * 8), True, NOT,
                           ""),
    "a longer queue file": (lambda s: grow(queue_file(s, 1), 2400), False, NOT, "reput rebuild"),
    "a shorter queue file": (lambda s: grow(queue_file(s, 1), 300), False, NOT, "reput rebuild"),
    "a queue of zeros": (
        lambda s: shutil.copytree(s / "consumequeue/T0/0", s / "consumequeue/T0/7")
        and [p.write_bytes(bytes(2000)) for p in (s / "consumequeue/T0/7").iterdir()],
        True, SOUND, ""),
    "a copied queue -1": (
        lambda s: shutil.copytree(s / "consumequeue/T0/0", s / "consumequeue/T0/-1"), True, NOT,
        "reput rebuild"),
    "a cut index file": (lambda s: grow(index_file(s), 100), True, NOT, "reput rebuild"),
    "an index file of NULs": (lambda s: edit(index_file(s), 0, bytes(4240)), True, NOT,
                              "reput rebuild"),
    "NULs in an index file": (lambda s: edit(index_file(s), 440, bytes(200)), True, NOT,
                              "reput rebuild"),
    "an index file twice": (
        lambda s: shutil.copy(index_file(s), s / f"index/{int(index_file(s).name) + 5}"), True, NOT,
        "reput rebuild"),
    "no checkpoint": (lambda s: (s / "checkpoint").unlink(), True, SOUND, ""),
    "checkpoint of NULs": (lambda s: edit(s / "checkpoint", 0, bytes(4096)), True, SOUND, ""),
    "checkpoint of 0 bytes": (lambda s: grow(s / "checkpoint", 0), True, SOUND, ""),
    "checkpoint of 1970": (lambda s: edit(s / "checkpoint", 0, (1).to_bytes(8, "big") * 3), True,
                           SOUND, ""),
    "no lock": (lambda s: (s / "lock").unlink(), True, SOUND, ""),
    "abort alone": (lambda s: (s / "abort").touch(), True, NEEDS, "reput recover"),
    "expired": (lambda s: expire(s, 2), True, SOUND, ""),
    "all but the last expired": (lambda s: expire(s, 4), True, SOUND, ""),
    "expired, a queue gone": (lambda s: forget(s, "consumequeue/T0/0"), True, NOT, "reput rebuild"),
    "spare segments": (lambda s: [segment(s, n).write_bytes(bytes(SEGMENT)) for n in (5, 6)], True,
                       SOUND, ""),
    "a short last segment": (lambda s: grow(segment(s, 4), 30_000), False, NOT, "reput repair"),
    "a long last segment": (lambda s: grow(segment(s, 4), 70_000), False, NOT, "reput repair"),
    "segments swapped": (lambda s: swap(segment(s, 1), segment(s, 2)), True, NOT, "reput repair"),
    "a sector of NULs": (lambda s: edit(segment(s, 1), 5120, bytes(512)), True, NOT,
                         "reput repair"),
    "the end of NULs": (lambda s: edit(segment(s, 4), 100, bytes(900)), True, NOT, "look for"),
}  # fmt: skip


@pytest.mark.parametrize("name", SITUATIONS)
def test_a_reported_situation(broker: Driver, written: Path, name: str, tmp_path: Path) -> None:
    change, starts, state, following = SITUATIONS[name]
    store = Path(shutil.copytree(written, tmp_path / "there" / "store"))
    change(store)
    report = check(Session(), str(store), **GIVEN)
    assert report.state == state, (report.findings, report.differences)
    assert next_step(report).startswith(following)
    assert bool(next_step(report)) == (state != SOUND)  # what is not sound says what is next
    answer = broker.derive(store, SIZES, mode="as-is", may_refuse=True)
    assert bool(answer.get("refused")) != starts


def test_of_an_emptied_log_a_broker_deletes_the_queues_and_check_counts_them(
    broker: Driver, written: Path, tmp_path: Path
) -> None:
    store = Path(shutil.copytree(written, tmp_path / "store"))
    expire(store, 5)
    with pytest.raises(DamageFound, match=r"6 queues name 700 messages"):
        check(Session(), str(store), **GIVEN)
    assert not broker.derive(store, SIZES, mode="as-is", may_refuse=True).get("refused")
    assert not [path for path in (store / "consumequeue").rglob("*") if path.is_file()]


def test_a_setting_by_which_a_broker_deletes_messages_is_named(broker, written, tmp_path) -> None:
    """enabledAppendPropCRC came after them."""
    store = Path(shutil.copytree(written, tmp_path / "store"))
    forced = {**SIZES, "enabledAppendPropCRC": True, "forceVerifyPropCRC": True}
    report = check(Session(), str(store), rocketmq=VERSION, settings=as_text(forced))
    assert (report.state, report.messages) == (NOT, 700)
    assert next_step(report).startswith("leave forceVerifyPropCRC out")
    ends = [broker.derive(store, each, mode="as-is")["max_offset"] for each in (SIZES, forced)]
    assert ends[1] < ends[0]


def test_other_file_sizes_than_the_broker_s_settings_are_refused(broker, written, tmp_path) -> None:
    """#1560: a release was changed, and with it mappedFileSizeConsumeQueue."""
    store = Path(shutil.copytree(written, tmp_path / "store"))
    for path in (store / "consumequeue").rglob("0*0"):
        if path.is_file():
            grow(path, 3000)
    with pytest.raises(SettingError, match="give --set mappedFileSizeConsumeQueue=3000"):
        check(Session(), str(store), **GIVEN)
    assert broker.derive(store, SIZES, mode="as-is", may_refuse=True)["refused"]


CLOCKS: dict[str, Callable[[int, int], int]] = {"back an hour": lambda n,
    t: t - (HOUR if n >= 400 else 0), "a year ahead for a while": lambda n,
    t: t + (8760 * HOUR if 200 <= n < 400 else 0), "one of 2100": lambda n,
    t: 4_102_444_800_000 if n == 300 else t, "the first of 2100": lambda n,
    t: 4_102_444_800_000 if n == 0 else t, "the last of 2100": lambda n,
    t: 4_102_444_800_000 if n == 699 else t, "1970 from a dead battery on": lambda n,
    t: n if n >= 350 else t, "0": lambda n, t: 0 if n == 300 else t, "below 0": lambda n,
    t: -1000 if n == 300 else t}  # fmt: skip


@pytest.mark.parametrize("name", CLOCKS)
def test_whatever_a_clock_did_files_are_as_rocketmq_derives_them(
    broker: Driver, written: Path, name: str, tmp_path: Path
) -> None:
    store = Path(shutil.copytree(written, tmp_path / "store"))
    for number, record in enumerate(list(stored_records(store / "commitlog"))):
        place = record.physical_offset
        at = place % SEGMENT + store_timestamp_at(record.sys_flag, RULES)
        stored = CLOCKS[name](number, record.store_timestamp)
        edit(segment(store, place // SEGMENT), at, stored.to_bytes(8, "big", signed=True))
    remove_derived(store)
    given = {"rocketmq": VERSION, "settings": as_text(FEW_FILES)}
    rebuild(Session(), str(store), str(tmp_path / "set"), **given)
    broker.derive(store, FEW_FILES, mode="crash")
    assert_same(derived(tmp_path / "set"), derived(store))
    assert check(Session(), str(store), **given).sound


LEVELS = "messageDelayLevel"
LMQ = {"enableLmq": True, "enableMultiDispatch": True}
# what a store's lives were set to, what is given of that to `check`, and the state by it
LIVES: dict[str, tuple[list[dict[str, Any]], dict[str, Any], str]] = {
    "an index of other sizes": ([{}, {"maxHashSlotNum": 80, "maxIndexNum": 300}], {}, NOT),
    "messageIndexEnable off for a life": ([{}, {"messageIndexEnable": False}, {}], {}, NOT),
    "enableLmq on": ([{}, LMQ], LMQ, SOUND), "enableLmq off": ([LMQ, {}], {}, SOUND),
    "enabledAppendPropCRC on": ([{}, {"enabledAppendPropCRC": True}], {}, SOUND),
    "enabledAppendPropCRC off": ([{"enabledAppendPropCRC": True}, {}], {}, SOUND),
    "transientStorePoolEnable": (
        [{"transientStorePoolEnable": True, "flushDiskType": "ASYNC_FLUSH"}, {}], {}, SOUND),
    "messageDelayLevel changed": ([{LEVELS: "5s"}, {LEVELS: "1d"}, {LEVELS: "9s"}], {}, SOUND),
    "messageDelayLevel changed back": ([{LEVELS: "5s"}, {LEVELS: "1d"}, {LEVELS: "5s"}], {}, SOUND),
    "duplicationEnable": ([{"duplicationEnable": True}], {}, SOUND),
    "warmMapedFileEnable": ([{"warmMapedFileEnable": True}, {}], {}, SOUND),
}  # fmt: skip


@pytest.mark.parametrize("name", LIVES)
def test_settings_that_change_from_life_to_life(broker: Driver, name: str, tmp_path) -> None:
    store, (lives, given, state) = tmp_path / "store", LIVES[name]
    for life, settings in enumerate(lives):
        messages = [
            {"t": ("T0", "T1", SCHEDULE)[n % 3], "q": 0, "b": 40, "bs": n, "born": 1,
             "p": {"KEYS": f"k{life}.{n}", "INNER_MULTI_DISPATCH": f"%LMQ%a{n % 2}", "DELAY": "1"}}
            for n in range(120)
        ]  # fmt: skip
        job = {"store": str(store), "settings": {**SIZES, **settings}, "messages": messages}
        assert broker.ask("put", **job)["statuses"] == {"PUT_OK": 120}
    report = check(Session(), str(store), rocketmq=VERSION,
                   settings={**GIVEN["settings"], **as_text(given)})  # fmt: skip
    assert report.state == state, (report.findings, report.differences)
    assert report.messages == 120 * len(lives)
    assert report.warnings == []  # with duplicationEnable: that each record begins a life
    assert not broker.derive(store, {**SIZES, **lives[-1]}, mode="as-is", may_refuse=True).get(
        "refused"
    )
