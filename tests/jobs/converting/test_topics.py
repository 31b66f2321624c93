"""Only some topics, other names, another host, another release: which records, and what of them."""

import json
import struct
from typing import Any

import pytest

from tests.converted import PLAIN, SEGMENT, config, converted, encoded, plain, records_of
from tests.in_process import OUTPUT, STORE, storage_of
from tests.logs import Log
from tests.logs.encoder import HOST, Message, build_log, properties
from tests.logs.strategies import HOST_V6
from tests.memory_storage import MemoryStorage

LONG = "L" * 200


def with_config(log: Log, **files: Any) -> MemoryStorage:
    storage = storage_of(log)
    for name, whole in files.items():
        storage.files[f"{STORE}/config/{name}.json"] = json.dumps(whole).encode()
    return storage


def waits(topic: str, n: int, **more: Any) -> Message:
    pairs = properties(("REAL_TOPIC", topic), ("REAL_QID", "0"), ("DELAY", "3"))
    return Message("SCHEDULE_TOPIC_XXXX", 2, n, b"late", pairs, **more)


def retried(topic: str, n: int) -> Message:
    pairs = properties(("RETRY_TOPIC", topic), ("KEYS", "k"))
    return Message("%RETRY%g", 0, n, b"again", pairs)


def test_one_topic_takes_its_own_along_and_a_dropped_one_too() -> None:
    log = plain([Message("A"), Message("B"), waits("B", 0), waits("A", 1), Message("RMQ_SYS_X")])
    _, made = converted(log, drop=["B"])
    wanted = [Message("A"), waits("A", 0), Message("RMQ_SYS_X")]
    assert records_of(made) == encoded(wanted)
    a = [Message("A", n % 2, n // 2, b"a%d" % n) for n in range(4)]
    b = [Message("B", 0, n, b"b") for n in range(3)]
    late = [waits("AB"[n % 2], n) for n in range(6)]
    again = [retried("AB"[n % 2], 10 + n) for n in range(5)]
    log = plain([*a[:2], *b, *late[:3], *again, *a[2:], *late[3:]])
    storage = with_config(
        log, topics={"topicConfigTable": {name: {"topicName": name} for name in ("A", "B")}},
        consumerOffset={"offsetTable": {
            "A@g": {"0": 1, "1": 2}, "B@g": {"0": 2}, "%RETRY%g@g": {"0": 13},
        }},
        delayOffset={"offsetTable": {"3": 4}},
    )  # fmt: skip
    for splits in (1, 9):
        copy = MemoryStorage(storage.files)
        summary, made = converted(log, copy, splits=splits, topics=["A"])
        moved = [late[0], waits("A", 1), waits("A", 2), *(retried("A", 10 + n) for n in range(3))]
        wanted = [*a[:2], moved[0], moved[1], *moved[3:], *a[2:], moved[2]]
        assert records_of(made) == encoded(wanted)
        assert config(made, "topics", "topicConfigTable") == {"A": {"topicName": "A"}}
        assert config(made, "consumerOffset") == {"A@g": {"0": 1, "1": 2}, "%RETRY%g@g": {"0": 12}}
        assert config(made, "delayOffset") == {"3": 2}
        fates = {fate.topic: (fate.becomes, fate.messages, fate.taken) for fate in summary.topics}
        assert fates["B"] == ("", 3, 0)
        assert fates["SCHEDULE_TOPIC_XXXX"] == ("SCHEDULE_TOPIC_XXXX", 6, 3)


@pytest.mark.parametrize("retry", ["%RETRY%g_A", "%RETRY%g+A"])
@pytest.mark.parametrize("known", [False, True])
def test_pop_s_retries_go_with_their_topic_and_its_name(retry: str, known: bool) -> None:
    def all_of(a: str, retry: str) -> list[Message]:
        popped = properties(("1ST_POP_TIME", "7"), ("DLQ_ORIGIN_TOPIC", "B"))
        return [Message(a), *(Message(retry, 0, n, b"again", popped) for n in range(3))]

    log = plain([*all_of("A", retry), Message("B")])
    offsets = {f"{retry}@g": {"0": 1}, "A@g": {"0": 1}} if known else {}
    storage = with_config(log, consumerOffset={"offsetTable": offsets})
    copies = [MemoryStorage(storage.files) for _ in range(3)]
    _, made = converted(log, copies[0], topics=["A"])
    assert records_of(made) == encoded(all_of("A", retry))
    assert config(made, "consumerOffset") == offsets
    _, made = converted(log, copies[1], drop=["A"])
    assert records_of(made) == encoded([Message("B")])
    _, made = converted(log, copies[2], topics=["A"], rename={"A": "New"})
    new = retry.replace("A", "New")
    assert records_of(made) == encoded(all_of("New", new))
    assert set(config(made, "consumerOffset")) == {key.replace("A", "New") for key in offsets}


@pytest.mark.parametrize("to", [HOST[:4] + struct.pack(">i", 77), HOST_V6])
def test_each_record_gets_the_new_host(to: bytes) -> None:
    def made_by(host: bytes | None) -> list[Message]:
        hosts = [host or HOST, host or HOST_V6]
        return [
            Message("A", n, n, b"x" * n, store_host=hosts[n % 2], crc_property=n > 2,
                    sys_flag=0x20 if len(hosts[n % 2]) == 20 else 0)
            for n in range(6)
        ]  # fmt: skip

    log = plain(made_by(None))
    port = struct.unpack(">i", to[-4:])[0]
    text = f"127.0.0.1:{port}" if len(to) == 8 else (
        "[" + ":".join(to[n : n + 2].hex() for n in range(0, 16, 2)) + f"]:{port}"
    )  # fmt: skip
    _, made = converted(log, store_host=text)
    assert records_of(made) == encoded(made_by(to))


def test_a_queue_whose_messages_have_all_expired_goes_on_where_it_ended() -> None:
    entries = struct.pack(">qiq", 0, 0x7FFFFFFF, 0) * 3 + struct.pack(">qiq", 95, 120, 7)
    log = Log(build_log([Message("A")], SEGMENT, first_offset=SEGMENT), PLAIN, "5.3.3", {})
    for rename, name in (({}, "Gone"), ({"Gone": "Here"}, "Here")):
        storage = with_config(log, topics={"topicConfigTable": {"Gone": {"topicName": "Gone"}}})
        path = f"consumequeue/Gone/1/{0:020d}"
        storage.files[f"{STORE}/{path}"] = entries.ljust(400, b"\0")
        _, made = converted(log, storage, rename=rename, to_settings={"maxIndexNum": "9"})
        queue = made.files[f"{OUTPUT}/{path.replace('Gone', name)}"]
        assert queue[60:].rstrip(b"\0") == entries[60:]
    _, made = converted(log, storage_of(log), drop=["A"])
    assert records_of(made) == []
