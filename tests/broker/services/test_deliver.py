"""What is due is delivered as a broker does it: in order, once, and the broker's files say so."""

import json
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from reput.broker.services.deliver import Until, _put
from reput.jobs.clean import clean
from reput.store_format.fate import delays
from reput.store_format.fate.rows import gathered_delays
from reput.store_format.faults import StoreError
from reput.store_format.files.disk import DiskFiles
from reput.store_format.layouts import TIMER_CHECK, TIMER_DELETE, TIMER_ROLL, TIMER_UNIT
from reput.store_format.log.record import Record
from reput.store_format.message.message import (
    SCHEDULE_TOPIC,
    TIMER_TOPIC,
    Message,
    parse_properties,
)
from reput.store_format.notes import Notes
from tests.broker.services import stores
from tests.broker.services.stores import (
    T0,
    Clock,
    bodies,
    delayed,
    disk,
    opened,
    planned,
    properties_in,
    run,
    timer,
    writing,
)
from tests.broker.writer.stores import open_writer, stored_records
from tests.faults.failing import distinct, judge_all, same_again
from tests.faults.memory_files import Crash, MemoryFiles, crash_states
from tests.seeds import seed
from tests.store_format.fate.stores import unpack


def filled(root: Path, messages: list[Message], apart: int = 100) -> DiskFiles:
    files, clock = disk(root), Clock(T0)
    with writing(files, clock) as writer:
        for message in messages:
            writer.append(message)
            clock.now += apart
    return files


def offsets(files: DiskFiles) -> Any:
    text = Path(files.root, "config/delayOffset.json").read_text()
    table = text.partition('"offsetTable":{')[2].partition("}")[0]
    return {int(k): int(v) for k, v in (pair.split(":") for pair in table.split(","))}


@pytest.mark.parametrize("name", ["live_4.9.7", "live_5.3.3"])
def test_a_delivery_is_a_real_brokers(tmp_path: Path, name: str) -> None:
    """Each message that a real broker delivered, delivered again from what waited."""
    store, _ = unpack(name, tmp_path / "lived")
    records = list(stored_records(store / "commitlog"))
    waiting: dict[str, Record] = {}
    compared = set()
    for record in records:
        properties = parse_properties(record.properties)
        key = properties.get("UNIQ_KEY", "")
        if record.topic in (SCHEDULE_TOPIC, TIMER_TOPIC):
            waiting[key] = record
        elif key in waiting and properties.get("REAL_TOPIC") == record.topic:
            waited = waiting.pop(key)
            is_timer = waited.topic == TIMER_TOPIC
            now = int(properties.get("TIMER_DEQUEUE_MS", "0"))
            written = int(properties["TIMER_ENQUEUE_MS"]) if is_timer else None
            root = tmp_path / str(len(compared))
            release = name.partition("_")[2]
            with open_writer(root, release=release, mappedFileSizeCommitLog=1 << 17) as writer:
                _put(writer, waited, written, Until(now, now, False, 1000), is_timer)
            (made,) = stored_records(root / "commitlog")
            nowhere: dict[str, Any] = {"queue_offset": 0, "physical_offset": 0,
                                       "store_timestamp": 0, "body_at": 0}  # fmt: skip
            assert made._replace(**nowhere) == record._replace(**nowhere)
            compared.add((key, record.reconsume_times))
    assert len(compared) == (10 if name == "live_5.3.3" else 7)


def test_what_is_due_is_delivered_in_order_and_once(tmp_path: Path) -> None:
    messages = [delayed("a", 3), delayed("b", 1), delayed("c", 2), delayed("d", 3)]
    files = filled(tmp_path / "s", messages)
    assert run(files, T0 + 5200)[:3] == (2, 0, 0)
    assert bodies(files) == ["b", "c"]
    assert offsets(files) == {1: 1, 2: 1}
    assert run(files, T0 + 5200)[:3] == (0, 0, 0)
    assert run(files, T0 + 60_000)[:3] == (2, 0, 0)
    assert bodies(files) == ["b", "c", "a", "d"]
    assert offsets(files) == {1: 1, 2: 1, 3: 2}
    first = properties_in(files)[0]
    assert (first["REAL_TOPIC"], first["REAL_QID"], first["DELAY"]) == ("Orders", "1", "1")


def test_a_level_is_read_in_order_up_to_the_first_that_is_not_due(tmp_path: Path) -> None:
    files, clock = disk(tmp_path / "s"), Clock(T0)
    with writing(files, clock) as writer:
        writer.append(delayed("late", 3))
    with writing(files, clock, messageDelayLevel="1s 5s 1s") as writer:
        writer.append(delayed("soon", 3))
        writer.append(delayed("other", 1))
    # "late" keeps its own time; its level allows no such delay any more, so a broker takes it now
    plan, _ = planned(files, Until(T0 + 1000, T0 + 1000, False, 1000))
    assert [each.due - T0 for each in plan.due] == [1000, 10_000, 10_000]
    # The second was stored by a clock that was ahead: to a broker it is due at once.
    (tmp_path := tmp_path / "1").mkdir()
    files = filled(tmp_path / "s", [delayed("a", 3), delayed("b", 3)], apart=20_000)
    plan, _ = planned(files, Until(T0 + 5000, T0 + 5000, False, 1000))
    assert (plan.due, plan.levels, plan.waiting) == ([], {}, 2)
    plan, _ = planned(files, Until(T0 + 10_000, T0 + 10_000, False, 1000))
    assert [each.due for each in plan.due] == [T0 + 10_000, T0 + 30_000]


def test_what_was_delivered_before_a_kill_is_not_again(tmp_path: Path) -> None:
    files = filled(tmp_path / "s", [delayed("a", 1), timer("t", 2000), delayed("b", 1)])
    root = Path(files.root)
    (root / "config").mkdir(exist_ok=True)
    shutil.copytree(root / "config", tmp_path / "config")
    assert run(files, T0 + 9000)[:3] == (2, 1, 0)
    done = bodies(files)
    shutil.rmtree(root / "config")
    shutil.rmtree(root / "timerlog")
    shutil.copytree(tmp_path / "config", root / "config")
    plan, _ = planned(files, Until(T0 + 9000, T0 + 9000, False, 1000))
    assert (plan.due, plan.done) == ([], 3)
    assert run(files, T0 + 9000)[:3] == (0, 0, 0)
    assert bodies(files) == done == ["a", "b", "t"]
    assert offsets(files) == {1: 2}
    assert planned(files, Until(T0 + 9000, T0 + 9000, False, 1000))[0].done == 0


def test_a_stop_leaves_the_rest_for_the_next_run(tmp_path: Path) -> None:
    messages = [delayed("a", 1), timer("t", 1500), delayed("b", 1), delayed("c", 2)]
    for many in range(1, 5):
        files = filled(tmp_path / str(many), messages)
        assert sum(run(files, T0 + 9000, stop_after=many)[:3]) == many
        assert sum(run(files, T0 + 9000)[:3]) == 4 - many
        assert sorted(bodies(files)) == ["a", "b", "c", "t"]
        assert offsets(files) == {1: 2, 2: 1}


def test_what_cannot_be_put_holds_its_level_alone(tmp_path: Path) -> None:
    wrong = delayed("x", 1, "B")
    files = filled(tmp_path / "s", [delayed("a", 1), wrong, delayed("b", 1), delayed("c", 2)])
    clock = Clock(T0 + 9000)
    wanted = Until(clock.now, clock.now, False, 1000)
    with writing(files, clock) as writer:
        writer.appender._batch_topics = frozenset({"B"})
        plan, _ = planned(files, wanted)
        with stores.opened(files) as store:
            made = stores.deliver(writer, store, plan, wanted, 0, lambda: True)
    assert made[:3] == (2, 0, 0)
    assert len(made.refused) == 1
    assert "BatchQueueTopic" in made.refused[0]
    assert bodies(files) == ["a", "c"]
    assert offsets(files) == {1: 1, 2: 1}
    assert run(files, T0 + 9000)[:3] == (2, 0, 0)  # once it can be put
    assert bodies(files) == ["a", "c", "b"]


def test_what_is_meant_for_the_half_topic_or_no_queue_is_passed_over(tmp_path: Path) -> None:
    files = filled(tmp_path / "s", [])
    raw = b"DELAY\x011\x02REAL_TOPIC\x01RMQ_SYS_TRANS_HALF_TOPIC\x02REAL_QID\x010\x02"
    with writing(files, Clock(T0)) as writer:
        writer.put(writer.encoder.draft(Message(SCHEDULE_TOPIC, b"x", 0, properties=raw)))
        writer.append(delayed("a", 1))
    made = run(files, T0 + 9000)
    assert made.levels == 1
    assert "Discarded" in made.refused[0]
    assert offsets(files) == {1: 2}
    (tmp_path := tmp_path / "1").mkdir()
    files = disk(tmp_path / "s")
    raw = b"DELAY\x011\x02REAL_TOPIC\x01Orders\x02REAL_QID\x01-1\x02"
    with writing(files, Clock(T0)) as writer:
        writer.put(writer.encoder.draft(Message(SCHEDULE_TOPIC, b"x", 0, properties=raw)))
    made = run(files, T0 + 9000)
    assert made[:3] == (0, 0, 0)
    assert "FieldRange" in made.refused[0]


def test_a_brokers_own_file_stays_what_it_was_besides(tmp_path: Path) -> None:
    files = filled(tmp_path / "s", [delayed("a", 2)])
    Path(files.root, "config").mkdir()
    path = Path(files.root, "config/delayOffset.json")
    begin = '{\n\t"dataVersion":{\n\t\t"counter":2,\n\t\t"stateVersion":0,\n\t\t"timestamp":1\n\t},'
    before = begin + '\n\t"offsetTable":{1:7,4:0\n\t}\n}'
    path.write_text(before)
    run(files, T0 + 9000)
    assert path.read_text() == begin + '\n\t"offsetTable":{1:7,2:1,4:0\n\t}\n}'
    assert path.with_name("delayOffset.json.bak").read_text() == before
    (tmp_path := tmp_path / "later").mkdir()
    files = filled(tmp_path / "s", [delayed("a", 1)])
    Path(files.root, "config").mkdir()
    path = Path(files.root, "config/delayOffset.json")
    for wrong, reported in (
        ("[1", "offset 0: is not a JSON object"), ('{"offsetTable":7}', "is not a JSON object"),
        ('{"offsetTable":{"x":7}}', "a key is not a delay level")):  # fmt: skip
        path.write_text(wrong)
        with pytest.raises(StoreError, match=reported):
            run(files, T0 + 9000)
        assert path.read_text() == wrong
    path.unlink()
    assert run(files, T0 + 9000)[:3] == (1, 0, 0)
    assert bodies(files) == ["a"]
    assert json.loads(path.read_text().replace("{1:", '{"1":'))["offsetTable"] == {"1": 1}


def units(files: DiskFiles) -> Any:
    raw = b"".join(path.read_bytes() for path in sorted(Path(files.root, "timerlog").iterdir()))
    blocks = np.frombuffer(raw, np.uint8).reshape(-1, 200)  # a file has three units
    found = blocks[:, :156].copy().view(TIMER_UNIT).reshape(-1)
    return found[found["size"] == 52]


def test_the_wheel_keeps_what_is_not_due(tmp_path: Path) -> None:
    days = 86_400_000
    messages = [timer("a", 2000), timer("late", 50_000), timer("far", 5 * days // 2)]
    messages += [timer("same", 49_900), timer("b", 1500), timer("last", 1600)]
    files = filled(tmp_path / "s", messages)
    now = T0 + 5300
    assert run(files, now)[:3] == (0, 3, 0)
    assert bodies(files) == ["a", "b", "last"]  # a is due at a tick: at the one before
    check = np.fromfile(tmp_path / "s/config/timercheck", TIMER_CHECK, 1)[0]
    assert [int(each) for each in check.tolist()] == [T0 + 5000, 0, 6, 6]
    found = units(files)
    slots = (found["writeTime"] + found["delay"] - T0).tolist()
    # far away: to be rolled in the middle of what is left of two days and a half
    assert slots[:3] == [50_000, 5000 + days, 50_000]
    assert slots[3] < 0  # the topic's last message, in a slot that was read long ago
    assert found["magic"].tolist() == [1, 1 | TIMER_ROLL, 1, 1]
    assert found["previous"].tolist() == [-1, -1, 0, -1]
    assert not Path(files.root, "timerwheel").exists()
    assert run(files, now)[:3] == (0, 0, 0)
    assert run(files, T0 + 3 * days)[:3] == (0, 3, 0)
    assert bodies(files)[3:] == ["late", "same", "far"]


def test_an_old_wheel_goes_with_all_of_its_files_and_a_killed_runs(tmp_path: Path) -> None:
    files = filled(tmp_path / "s", [timer("a", 2000), timer("b", 60_000)])
    root = Path(files.root)
    (root / "timerlog").mkdir()
    for start, length in ((0, 10), (200, 200), (400, 200)):
        (root / "timerlog" / f"{start:020d}").write_bytes(bytes(length))
    for name in ("timerwheel", "timerwheel.400"):
        (root / name).write_bytes(b"old")
    run(files, T0 + 3000)
    assert sorted(path.name for path in root.iterdir() if "timer" in path.name) == ["timerlog"]
    assert [path.stat().st_size for path in (root / "timerlog").iterdir()] == [200]
    (tmp_path := tmp_path / "1").mkdir()
    files = filled(tmp_path / "s", [timer("a", 2000)])
    for name in ("timerwheel-notes.txt", "timerwheel.old"):
        (tmp_path / "s" / name).write_text("years of work")
    assert run(files, T0 + 5000)[:3] == (0, 1, 0)
    for name in ("timerwheel-notes.txt", "timerwheel.old"):
        assert (tmp_path / "s" / name).read_text() == "years of work"
    (tmp_path := tmp_path / "later").mkdir()
    files = filled(tmp_path / "s", [timer("a", 2000)])
    left = tmp_path / "s" / ".reput-timerlog"
    left.mkdir()
    (left / f"{0:020d}").write_bytes(bytes(200))
    assert clean(str(tmp_path / "s"), dry_run=True).staged_index == [str(left)]
    clean(str(tmp_path / "s"))
    assert not left.exists()
    left.mkdir()
    assert run(files, T0 + 9000)[:3] == (0, 1, 0)
    assert not left.exists()


def test_a_late_timer_not_wanted_yet_stays_and_times_are_the_brokers(tmp_path: Path) -> None:
    """Once the whole delivery failed on it, after the messages were put: --until long ago."""
    files = filled(tmp_path / "s", [timer("a", 2000), timer("b", 60_000)])
    year = 365 * 86_400_000
    assert run(files, T0 + 5000, now=T0 + year)[:3] == (0, 1, 0)
    found = units(files)
    assert (found["writeTime"] + found["delay"] - T0).tolist()[0] == 60_000
    assert run(files, T0 + year)[:3] == (0, 1, 0)
    assert bodies(files) == ["a", "b"]
    (tmp_path := tmp_path / "later").mkdir()
    files = filled(tmp_path / "s", [timer("a", 2000), timer("b", 60_000), timer("c", 120_000)])
    run(files, T0 + 3000)
    first = properties_in(files)[0]
    assert first["TIMER_ENQUEUE_MS"] == str((1 << 63) - 1)  # it was never in the wheel
    assert first["TIMER_DEQUEUE_MS"] == str(T0 + 3000)
    run(files, T0 + 70_000)
    assert properties_in(files)[1]["TIMER_ENQUEUE_MS"] == str(T0 + 3000)
    assert units(files)["writeTime"].tolist() == [T0 + 3000]


@pytest.mark.parametrize("read", [T0 + 60 * 86_400_000, (1 << 63) - 1])
def test_a_wheel_that_was_read_by_a_later_clock_is_made_anew(tmp_path: Path, read: int) -> None:
    files = filled(tmp_path / "s", [timer("a", 2000), timer("b", 60_000)])
    check = np.zeros(1, TIMER_CHECK)
    check["lastReadTimeMs"] = read
    (tmp_path / "s" / "config").mkdir()
    (tmp_path / "s" / "config" / "timercheck").write_bytes(check.tobytes().ljust(4096, b"\0"))
    assert run(files, T0 + 5000)[:3] == (0, 1, 0)
    assert (units(files)["delay"] >= 0).all()
    assert run(files, T0 + 61_000)[:3] == (0, 1, 0)
    assert bodies(files) == ["a", "b"]


@pytest.mark.parametrize("name", [
    "timerlog/notes.txt", "timerlog/0", ".reput-timerlog/mine/thesis", "timerwheel.1/thesis",
    "timerwheel/thesis", "config/timercheck.part/thesis", "config/delayOffset.json.tmp/thesis",
    "config/delayOffset.json.bak.tmp/thesis"])  # fmt: skip
def test_what_is_no_brokers_file_is_named_before_a_change(name: str, tmp_path: Path) -> None:
    files = filled(tmp_path / "s", [timer("a", 2000), timer("b", 60_000), delayed("c", 1)])
    mine = tmp_path / "s" / name
    mine.parent.mkdir(parents=True)
    mine.write_text("years of work")
    with pytest.raises(StoreError, match="it is left as it is"):
        run(files, T0 + 5000)
    assert mine.read_text() == "years of work"
    assert bodies(files) == []


@pytest.mark.parametrize("name", ["timerlog", ".reput-timerlog", "config"])
def test_no_link_is_followed(tmp_path: Path, name: str) -> None:
    files = filled(tmp_path / "s", [timer("a", 2000), delayed("b", 1)])
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "thesis.doc").write_text("years of work")
    (tmp_path / "s" / name).symlink_to(mine)
    with pytest.raises(StoreError, match=f"{name}: is a link"):
        run(files, T0 + 9000)
    assert [path.name for path in mine.iterdir()] == ["thesis.doc"]
    (tmp_path / "s" / name).unlink()
    assert run(files, T0 + 9000)[:3] == (1, 1, 0)


def test_what_is_delivered_early_or_recalled_leaves_the_wheel(tmp_path: Path) -> None:
    files = filled(tmp_path / "s", [timer("a", 60_000), timer("b", 90_000)])
    assert run(files, T0 + 70_000, now=T0 + 5000)[:3] == (0, 1, 0)
    check = np.fromfile(tmp_path / "s/config/timercheck", TIMER_CHECK, 1)[0]
    assert int(check["lastReadTimeMs"]) == T0 + 5000  # a broker's clock is not there yet
    found = units(files)
    assert (found["writeTime"] + found["delay"] - T0).tolist() == [90_000]
    assert run(files, T0 + 70_000, now=T0 + 5000)[:3] == (0, 0, 0)
    plan, _ = planned(files, Until(T0 + 70_000, T0 + 5000, False, 1000))
    assert (plan.due, plan.done, plan.wheel) == ([], 0, None)
    (tmp_path := tmp_path / "later").mkdir()
    files, clock = disk(tmp_path / "s"), Clock(T0)
    with writing(files, clock) as writer:
        for body, wait in (("a", 2500), ("b", 2500), ("c", 60_500)):
            message = timer(body, wait)
            message.unique_key = body
            writer.append(message)
        for key, wait in (("a", 2500), ("c", 60_500)):
            writer.append(timer("recall", wait, TIMER_DEL_UNIQKEY=key))
    assert run(files, T0 + 9000)[:3] == (0, 1, 0)
    assert bodies(files) == ["b"]
    found = units(files)
    assert found["magic"].tolist() == [1, 1 | TIMER_DELETE]
    assert run(files, T0 + 90_000)[:3] == (0, 0, 0)


def test_what_a_broker_skipped_is_delivered_when_asked_for(tmp_path: Path) -> None:
    store, done = unpack("skipped_5.2.0", tmp_path)
    files = DiskFiles(str(store))
    sizes: dict[str, Any] = {
        "mappedFileSizeCommitLog": 1 << 17, "mappedFileSizeConsumeQueue": 2000,
        "maxHashSlotNum": 50, "maxIndexNum": 600, "release": "5.2.0"}  # fmt: skip
    now = 1_800_000_000_000
    assert run(files, now, **sizes)[:3] == (0, 0, 0)
    assert run(files, now, missed=True, **sizes)[:3] == (0, 0, 3)
    assert run(files, now, missed=True, **sizes)[:3] == (0, 0, 0)
    with stores.opened(files) as opened:
        keys = {parse_properties(record.properties).get("UNIQ_KEY")
                for record in opened.log.records(0) if record.topic.startswith("Live")}  # fmt: skip
    assert keys == set(done["delays"])


# --- Killed, or without power, after any operation: the next run delivers the rest, once.
WANTED = ["a", "b", "c", "t", "u"]


def before(**named: Any) -> MemoryFiles:
    """A store in which five messages are due at T0 + 9000, and three are not."""
    files, clock = MemoryFiles(), Clock(T0)
    messages = [
        delayed("a", 1), timer("t", 2000), delayed("later", 3), delayed("b", 2), timer("u", 1500),
        timer("then", 50_000), delayed("c", 1), timer("far", 200_000_000)]  # fmt: skip
    with writing(files, clock, **named) as writer:
        for message in messages:
            writer.append(message)
            clock.now += 10
    return files


def check_all(seed: int, mixtures: int, every: int, **named: Any) -> int:
    start = before(**named)
    files = same_again(start)
    run(files, T0 + 9000, **named)

    def judge(crash: Crash) -> str:
        run(crash.files, T0 + 9000, **named)
        assert sorted(bodies(crash.files)) == WANTED
        assert sum(run(crash.files, T0 + 9000, **named)[:3]) == 0
        with opened(crash.files) as store:
            gathered, levels, read = gathered_delays(store, Notes())
            states = Counter(str(each.state) for each in delays.resolve(gathered, levels, read))
        assert states == {"delivered": 5, "waiting": 3}, states
        assert sum(run(crash.files, T0 + 300_000_000, **named)[:3]) == 3
        assert sorted(bodies(crash.files)) == sorted([*WANTED, "later", "then", "far"])
        return "whole"

    states = distinct(crash_states(start, files.ops, seed, mixtures, every))
    return judge_all(states, files.ops, judge).total()


def test_crash_states_of_a_delivery() -> None:
    assert check_all(1, 1, 45) > 3


@pytest.mark.long
@pytest.mark.explore
def test_all_crash_states_of_a_delivery() -> None:
    assert check_all(seed(2), 1, 2, flushDiskType="ASYNC_FLUSH") > 50
