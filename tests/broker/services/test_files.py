"""Files of config/: read with their unquoted keys, written back as a broker's own, with a .bak."""

import struct
from typing import Any

import numpy as np
import pytest

from reput.broker.services import files
from reput.store_format.faults import StoreError
from reput.store_format.layouts import TIMER_UNIT
from reput.store_format.release.profiles import profile
from reput.store_format.state.timers import Timers, Turned, timer_log_files
from tests import golden_stores
from tests.faults.failing import same_again
from tests.faults.memory_files import MemoryFiles, crash_states

PATH = "config/consumerOffset.json"
OLD, NEW = profile("5.3.3"), profile("5.4.0")
TABLE: dict[str, Any] = {"offsetTable": {"T@g": {"#0": 7, "#-1": 8}, "none": {}, "list": ["a", 1]}}


def holding(files_of: dict[str, bytes]) -> MemoryFiles:
    memory = MemoryFiles()
    memory.make_folder("config")
    for path, raw in files_of.items():
        memory.create(path).write_at(0, raw)
    return memory


@pytest.mark.parametrize("name", [
    "consumerOffset", "delayOffset", "topics", "subscriptionGroup", "consumerFilter"])  # fmt: skip
def test_a_real_brokers_file_is_written_as_it_was_read(name: str) -> None:
    raw = (golden_stores.unpack("broker_clean_5.3.3").input / f"config/{name}.json").read_bytes()
    found = files.read_json(holding({PATH: raw}), PATH)
    assert files.pretty(found, False).encode() == raw
    assert found


def test_each_release_has_its_own_lines() -> None:
    assert files.pretty(TABLE, False) == (
        '{\n\t"offsetTable":{\n\t\t"T@g":{0:7,-1:8\n\t\t},\n\t\t"none":{},\n\t\t"list":["a",1]'
        "\n\t}\n}")  # fmt: skip
    assert files.pretty(TABLE, True) == (
        '{\n\t"offsetTable":{\n\t\t"T@g":{\n\t\t\t0:7,\n\t\t\t-1:8\n\t\t},\n\t\t"none":{},'
        '\n\t\t"list":[\n\t\t\t"a",\n\t\t\t1\n\t\t]\n\t}\n}')  # fmt: skip


def test_numbers_and_text_stay_as_they_are() -> None:
    raw = b'{"offsetTable":{"1":2,3:4, -5 :6,"a{7:8":"9:\\"{1:2}"}}'
    found = files.read_json(holding({PATH: raw}), PATH)
    assert found["offsetTable"] == {
        "1": 2, files.integer_key(3): 4, files.integer_key("-5"): 6,
        "a{7:8": '9:"{1:2}'}  # fmt: skip
    assert files.pretty(found["offsetTable"], False).startswith('{\n\t"1":2,\n\t3:4,\n\t-5:6,')
    assert files.pretty({"#x": 1, "#": 2}, False) == '{\n\t"#x":1,\n\t"#":2\n}'
    # fastjson escapes nothing but what JSON has to (no BrowserCompatible).
    raw = '{"offsetTable":{"订单@g":{0:7},"\\"é":"\\"é"}}'.encode()
    found = files.read_json(holding({PATH: raw}), PATH)
    assert files.pretty(found, False) == (
        '{\n\t"offsetTable":{\n\t\t"订单@g":{0:7\n\t\t},\n\t\t"\\"é":"\\"é"\n\t}\n}')  # fmt: skip


def test_offsets_may_be_changed_in_what_was_read_but_no_object_is_refused() -> None:
    for raw in [b"", b"[]", b"7", b"null", b"{", b"\xff", b'{"a":' * 2000, b"{}x"]:
        memory = holding({PATH: raw})
        with pytest.raises(StoreError, match="not a JSON object"):
            files.read_json(memory, PATH)
        assert memory.tree()[PATH] == raw
        assert files.read_json(MemoryFiles(), PATH) == {}
    whole, table = files.read_offsets(holding({PATH: b'{"x":1,"offsetTable":{1:2}}'}), PATH)
    table[files.integer_key(1)] = 9
    assert whole == {"x": 1, "offsetTable": {"#1": 9}}
    assert files.read_offsets(MemoryFiles(), PATH) == ({"offsetTable": {}}, {})
    with pytest.raises(StoreError, match="offsetTable"):
        files.read_offsets(holding({PATH: b'{"offsetTable":[]}'}), PATH)
    for beside in (PATH + ".bak", PATH + ".tmp", PATH + ".bak.tmp"):
        memory = holding({})
        memory.make_folder(beside)
        with pytest.raises(StoreError, match="is a folder"):
            files.read_offsets(memory, PATH)
    no_folder = MemoryFiles()
    no_folder.create("config")
    with pytest.raises(StoreError, match="is not a folder"):
        files.read_offsets(no_folder, PATH)


def test_the_old_content_is_kept_and_the_same_content_is_not_written() -> None:
    memory = MemoryFiles()
    files.write_json(memory, PATH, {"a": 1}, OLD)
    assert memory.tree() == {PATH: b'{\n\t"a":1\n}'}
    files.write_json(memory, PATH, {"a": {"#1": 2}}, NEW)
    written = {PATH: b'{\n\t"a":{\n\t\t1:2\n\t}\n}', PATH + ".bak": b'{\n\t"a":1\n}'}
    assert memory.tree() == written
    done = len(memory.ops)
    files.write_json(memory, PATH, {"a": {"#1": 2}}, NEW)
    assert (memory.tree(), len(memory.ops)) == (written, done)
    for crash in crash_states(MemoryFiles(), memory.ops, 1, 0):
        assert crash.after < done or crash.files.tree() == written


TOPICS = "config/topics.json"


def test_topics_that_are_missing_are_added_as_a_broker_writes_them() -> None:
    """Without a row there a broker has no route to a topic (autoCreateTopicEnable=false)."""
    before = b'{"dataVersion":{"counter":7},"topicConfigTable":{"A":{"perm":4}},"x":1}'
    memory = holding({TOPICS: before})
    queues = {"A": 9, "B": 3, "%LMQ%x": 1, "SCHEDULE_TOPIC_XXXX": 1, "rmq_sys_y": 1, "C": 1}
    like = {"B": {"writeQueueNums": 8, "perm": 2, "attributes": {"+a": "b"}}, "C": "broken"}
    assert files.add_topics(memory, queues, like, OLD, 5) == ["B", "C"]
    found = files.read_json(memory, TOPICS)
    assert found["dataVersion"] == {"counter": 8, "stateVersion": 0, "timestamp": 5}
    assert found["x"] == 1
    assert found["topicConfigTable"] == {
        "A": {"perm": 4},
        "B": {"attributes": {"+a": "b"}, "order": False, "perm": 2, "readQueueNums": 3,
              "topicFilterType": "SINGLE_TAG", "topicName": "B", "topicSysFlag": 0,
              "writeQueueNums": 8},
        "C": {"attributes": {}, "order": False, "perm": 6, "readQueueNums": 1,
              "topicFilterType": "SINGLE_TAG", "topicName": "C", "topicSysFlag": 0,
              "writeQueueNums": 1},
    }  # fmt: skip
    assert memory.tree()[TOPICS + ".bak"] == before
    after = memory.tree()
    assert files.add_topics(memory, queues, like, OLD, 6) == []
    assert memory.tree() == after


def test_a_new_store_of_4_9_7_gets_a_file_and_a_broken_one_is_left() -> None:
    memory = MemoryFiles()
    memory.make_folder("")
    assert files.add_topics(memory, {"T": 2}, {}, profile("4.9.7"), 5) == ["T"]
    found = files.read_json(memory, TOPICS)
    assert "attributes" not in found["topicConfigTable"]["T"]
    assert found["dataVersion"] == {"counter": 1, "timestamp": 5}
    for raw in [b"\0" * 40, b'{"topicConfigTable":[]}']:
        memory = holding({TOPICS: raw})
        with pytest.raises(StoreError, match=r"topics\.json"):
            files.add_topics(memory, {"T": 1}, {}, OLD, 5)
        assert memory.tree() == holding({TOPICS: raw}).tree()


# --- The timer's files replaced in steps, and what is none of a broker's refused.
READ = 1_700_000_000_000


LOG = "timerlog/" + "0" * 20
CHECK = "config/timercheck"
OLD_CHECK = struct.pack(">4q", 1, 2, 3, 4) + b"version".ljust(4064, b"\0")
TIMERS = Timers(np.ones(2, TIMER_UNIT), Turned(READ, READ, 42, READ, 1000), 1)


def before() -> MemoryFiles:
    memory = MemoryFiles()
    for folder in ("timerlog", "config", ".reput-timerlog"):
        memory.make_folder(folder)
    made = {LOG: b"old", "timerwheel": b"w", "timerwheel.7": b"w", "timerwheels": b"other",
            CHECK: OLD_CHECK}  # fmt: skip
    for name, raw in made.items():
        memory.create(name).write_at(0, raw)
    memory.ops.clear()
    return memory


def after() -> dict[str, bytes]:
    ((_, content),) = timer_log_files(TIMERS.units, 200, 1000)
    return {
        LOG: content.ljust(200, b"\0"), "timerwheels": b"other",
        CHECK: struct.pack(">4q", READ, 0, 42, 42) + OLD_CHECK[32:]}  # fmt: skip


def test_the_files_are_replaced_and_a_power_cut_leaves_a_wheel_of_the_log() -> None:
    memory = before()
    files.replace_timer_files(memory, TIMERS, 200)
    assert memory.tree() == after()
    # It makes it of what is behind timercheck's lastTimerLogFlushPos, and of a wheel there is.
    memory = before()
    start = same_again(memory)
    files.replace_timer_files(memory, TIMERS, 200)
    new = after()
    for crash in crash_states(start, memory.ops, 1, 20):
        tree = crash.files.tree()
        wheels, check = {"timerwheel", "timerwheel.7"} & tree.keys(), tree[CHECK]
        where = (crash.after, crash.how)
        assert tree[LOG] in (b"old", new[LOG]), where
        assert tree[LOG] == b"old" or not wheels, where
        assert len(wheels) == 2 or check == new[CHECK] or check[8:16] == bytes(8), where
        assert check != new[CHECK] or (tree[LOG] == new[LOG] and not wheels), where
        if crash.after == len(memory.ops):
            assert {p: raw for p, raw in tree.items() if not p.startswith(".")} == new, where


def test_what_is_no_brokers_file_is_refused() -> None:
    for made in ["timerlog/x", "timerlog/1", "config/timercheck/", "timerwheel/", "timerwheel.1/"]:
        memory = MemoryFiles()
        files.check_can_replace(memory)
        memory.make_folder(made.rpartition("/")[0])
        if not made.endswith("/"):
            memory.create(made)
        with pytest.raises(StoreError, match="is left as it is"):
            files.check_can_replace(memory)
    file = MemoryFiles()
    file.create("timerlog")
    with pytest.raises(StoreError, match="timerlog: is not a folder"):
        files.check_can_replace(file)
