"""`reput dump`: every golden file is sound or damaged where it is, and each finding can be made."""

import argparse
import json
import struct
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import psutil
import pytest

from reput.jobs import cli, dump
from reput.jobs.console.dump_text import safe
from reput.jobs.console.endings import ending
from reput.jobs.console.options import USAGE
from reput.store_format.describe import log as describe_log
from reput.store_format.describe.files import FileKind
from reput.store_format.faults import StoreError
from reput.store_format.release.profiles import RELEASES
from tests import golden_stores
from tests.jobs.dumping import dump_lines
from tests.logs import Message, build_log, encode, properties

ENTRY = struct.Struct(">qiq")


def items(path: Path | str, *words: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in dump_lines(str(path), "--json", *words)]


def run(*words: str) -> int:
    parser = argparse.ArgumentParser()
    dump.add_arguments(parser)
    reported = parser.parse_args(["--rocketmq", RELEASES[-1], *(str(word) for word in words)])
    try:
        return dump.run(reported)
    except (StoreError, OSError, ValueError) as error:
        return ending(error)


def of_kind(found: list[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    return [item for item in found if item["kind"] == kind]


def segment(tmp_path: Path, data: bytes, start: int = 0) -> Path:
    return written(tmp_path, f"commitlog/{start:020d}", data)


def written(tmp_path: Path, name: str, data: bytes) -> Path:
    path = tmp_path / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


def log_bytes(*messages: Message, size: int = 4096) -> bytes:
    return build_log(messages, size)[0]


DAMAGED = {
    "continued_5.3.3": ("BAD_MAGIC", 476547), "middle_crc_5.3.3": ("BODY_CRC", 270392),
    "middle_length_5.3.3": ("LENGTHS", 270392), "middle_magic_5.3.3": ("BAD_MAGIC", 270392),
    "middle_properties_5.3.3": ("LENGTHS", 270392), "middle_size_5.3.3": ("SIZE_PAST_END", 270392),
    "torn_tail_5.3.3": ("LENGTHS", 529006), "bad_magic_tail_5.3.3": ("BAD_MAGIC", 529006),
    "garbage_tail_5.3.3": ("SIZE_PAST_END", 529465)}  # fmt: skip


@pytest.mark.parametrize("name", golden_stores.names())
def test_a_golden_store_is_sound_but_for_its_damage(name: str) -> None:
    store = golden_stores.unpack(name)
    slots = store.settings.get("maxHashSlotNum", 5_000_000)
    damage: set[tuple[str, int]] = set()
    for folder in ("input/commitlog", "expect"):
        for path in sorted((store.root / folder).rglob("*")):
            if not path.is_file() or "expect/commitlog" in str(path):
                continue
            options = ["--set", f"maxHashSlotNum={slots}", "--rocketmq", store.version]
            found = of_kind(items(path, *options), "damage")
            damage |= {(item.get("fault", item["reason"]), item["at"]) for item in found}
    expected = DAMAGED.get(name)
    segment_bytes = store.settings.get("mappedFileSizeCommitLog", 1 << 30)
    assert damage == ({(expected[0], expected[1] % int(segment_bytes))} if expected else set())


def test_records_and_their_keys_are_what_queues_and_index_hold() -> None:
    store = golden_stores.unpack("tiny_5.3.3")
    path = next((store.input / "commitlog").iterdir())
    found = of_kind(items(path, "--rocketmq", "5.3.3"), "record")
    queues = [(item["physicalOffset"], item["size"], item["tagsCode"])
              for file in (store.expect / "consumequeue").rglob("0*") if file.is_file()
              for item in of_kind(items(file), "entry")]  # fmt: skip
    dispatched = [r for r in found if r["tagsCode"] is not None]
    assert sorted(queues) == [(r["physicalOffset"], r["size"], r["tagsCode"]) for r in dispatched]
    keys = [(item["keyHash"], item["physicalOffset"])
            for file in sorted((store.expect / "index").iterdir())
            for item in of_kind(items(file, "--set", "maxHashSlotNum=100"), "entry")]  # fmt: skip
    assert keys == [(key, r["physicalOffset"]) for r in found for key in r["keyHashes"]]


def test_every_field_of_a_record(tmp_path: Path) -> None:
    message = Message(
        topic="Tö", queue_id=3, queue_offset=7, body=b"hello", flag=9, reconsume_times=2,
        properties=properties(("TAGS", "a"), ("KEYS", "k")), sys_flag=0x18, born_host=bytes(15)
        + b"\x01" + struct.pack(">i", 80), prepared_transaction_offset=11, store_timestamp=5,
        born_timestamp=-1)  # fmt: skip
    path = segment(tmp_path, log_bytes(message))
    item = items(path)[0]
    assert item == {
        "kind": "record", "at": 0, "physicalOffset": 0, "size": 91 + 3 + 5 + 14 + 12,
        "version": 1, "topic": "Tö", "queueId": 3, "queueOffset": 7, "transaction": "commit",
        "storeTimestamp": 5, "bornTimestamp": -1, "bodyLength": 5, "bodyCRC": 0x3610A686,
        "propertiesLength": 14, "flag": 9, "sysFlag": 0x18, "bornHost": "[::1]:80",
        "storeHost": "127.0.0.1:10911", "reconsumeTimes": 2, "preparedTransactionOffset": 11,
        "tagsCode": 97, "keyHashes": item["keyHashes"]}  # fmt: skip
    assert len(item["keyHashes"]) == 2  # k, and the tags from 5.4.0 on
    assert len(items(path, "--rocketmq", "5.3.3")[0]["keyHashes"]) == 1


def test_bodies_and_properties_only_where_asked_for(tmp_path: Path) -> None:
    secret = Message(body=b"secret", properties=b"a\x01hidden\x02b\x02c\x01\x02")
    path = segment(tmp_path, log_bytes(secret, Message(body=b"\xff\x00", queue_offset=1)))
    plain = "".join(dump_lines(str(path)) + dump_lines(str(path), "--json"))
    assert "secret" not in plain
    assert "hidden" not in plain
    shown = items(path, "--bodies", "--properties")
    assert shown[0]["body"] == "secret"
    assert shown[0]["properties"] == {"a": "hidden"}
    assert shown[0]["notProperties"] == ["b", "c\x01"]
    assert shown[1]["bodyHex"] == "ff00"
    text = "".join(dump_lines(str(path), "--bodies", "--properties"))
    assert "body: secret" in text
    assert "a = hidden" in text
    path = segment(tmp_path, log_bytes(Message(topic="T\x1b[31m\u202e")))
    text = "".join(dump_lines(str(path)))
    assert "\x1b" not in text
    assert "T\\x1b[31m\\u202e/0" in text
    assert safe("plain ü 中") == "plain ü 中"


@pytest.mark.parametrize(("bad", "fault", "field", "value"), [
    (Message(magic=0x12345678), "BAD_MAGIC", "magic", 0x12345678),
    (Message(size=93), "LENGTHS", "propertiesLength", None),
    (Message(size=90), "BAD_SIZE", "totalSize", 90),
    (Message(size=5000), "SIZE_PAST_END", "totalSize", 5000),
    (Message(physical_offset=93), "PLACE", "physicalOffset", 93),
    (Message(body=b"x", body_crc=1), "BODY_CRC", "bodyCRC", 1),
    (Message(topic_length=-1), "TOPIC_LENGTH", "topicLength", None),
    (Message(body_length=99), "BODY_LENGTH", "bodyLength", None),
    (Message(topic="SCHEDULE_TOPIC_XXXX", properties=properties(("DELAY", "x"))),
     "DELAY_LEVEL", "DELAY", None),
    (Message(properties=properties(("INNER_BASE", "1"), ("INNER_NUM", "32768"))),
     "BATCH_NUMBERS", "INNER_NUM/INNER_BASE", None)])  # fmt: skip
def test_damage_is_named_and_the_records_behind_it_are_found(
    tmp_path: Path, bad: Message, fault: str, field: str, value: int | None
) -> None:
    good = Message(queue_offset=1)
    path = segment(tmp_path, log_bytes(Message(), bad, good, good))
    found = items(path)
    assert [item["kind"] for item in found] == [
        "record", "damage", "skipped", "record", "record", "zeros"]  # fmt: skip
    damage, skipped, behind = found[1:4]
    assert (damage["at"], damage["fault"], damage["field"]) == (92, fault, field)
    assert damage["value"] == value
    assert skipped["bytes"] == behind["at"] - 92
    assert behind["afterBreak"]
    assert behind["doubts"] == []
    assert found[4]["doubts"] == ["queueOffset is below its queue's next"]
    assert dump_lines.code == dump.DAMAGE  # type: ignore[attr-defined]


def test_stale_bytes_behind_a_blank(tmp_path: Path) -> None:
    for filler, clean in ((b"\0", True), (b"\x07", False)):
        log = build_log([Message(), Message()], 120, filler=filler)
        found = items(segment(tmp_path, log[0]))
        assert found[-1]["kind"] == "blank"
        assert (found[-1]["at"], found[-1]["size"], found[-1]["restIsZero"]) == (92, 28, clean)
    log[0] = log[0][:92] + struct.pack(">i", 20) + log[0][96:]
    assert items(segment(tmp_path, log[0]), "--limit", "1")[-1]["field"] == "size"


def test_from_and_limit_and_a_copy_under_another_name(tmp_path: Path) -> None:
    data = build_log([Message(queue_offset=n) for n in range(9)], 4096, first_offset=4096)[4096]
    path = segment(tmp_path, data, 4096)
    found = items(path, "--from", str(4096 + 93), "--limit", "2")
    assert [item["queueOffset"] for item in found] == [2, 3]
    assert items(path, "--limit", "1")[0]["physicalOffset"] == 4096
    assert items(path, "--limit", "0") == []
    assert items(path, "--from", "4096", "--limit", "1") == items(path, "--limit", "1")
    assert run(path, "--from", "0") == USAGE
    assert run(path, "--from", "8192") == USAGE
    data = build_log([Message()], 4096, first_offset=4096)[4096]
    path = written(tmp_path, "copy.bin", data)
    assert run(path) == USAGE
    assert items(path, "--kind", "commitlog")[0]["physicalOffset"] == 4096


def test_records_longer_than_the_window(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    big = Message(body=bytes(range(255, -1, -1)) * 40, properties=properties(("KEYS", "k")))
    data = log_bytes(Message(), big, Message(queue_offset=1), big, size=1 << 16)
    expected = items(segment(tmp_path, data), "--bodies")
    monkeypatch.setattr(describe_log, "WINDOW_BYTES", 512)
    monkeypatch.setattr(describe_log, "BODY_SHOWN_MAX", 100)
    found = items(segment(tmp_path, data), "--bodies")
    assert found[1].pop("bodyShown") == 100
    assert found[1]["bodyHex"] == expected[1]["bodyHex"][:200]
    for item in (*found, *expected):
        item.pop("bodyHex", None)
        item.pop("bodyShown", None)
    assert found == expected
    broken = data.replace(b"\x07\x06\x05", b"\x07\x00\x05")
    found = items(segment(tmp_path, broken))
    assert [item.get("fault") for item in found] == [
        None, "BODY_CRC", None, None, "BODY_CRC", None]  # fmt: skip


def queue(tmp_path: Path, data: bytes, start: int = 0, folder: str = "consumequeue") -> Path:
    return written(tmp_path, f"{folder}/T/0/{start:020d}", data)


def test_positions_of_a_queue_and_how_many_are_unused(tmp_path: Path, monkeypatch) -> None:
    path = queue(tmp_path, b"".join(ENTRY.pack(n, 1, n) for n in range(50)), 1000)
    found = items(path, "--from", "60", "--limit", "3")
    assert [item["position"] for item in found] == [60, 61, 62]
    assert run(path, "--from", "100") == USAGE
    monkeypatch.setattr("reput.store_format.describe.files._WINDOW_ENTRIES", 2)
    data = ENTRY.pack(0, 92, 0) + bytes(20 * 6) + ENTRY.pack(92, 92, 0) + bytes(20 * 3)
    found = items(written(tmp_path, "consumequeue/t/0/" + "0" * 20, data))
    unused = [(item["position"], item["entries"]) for item in of_kind(found, "unused")]
    assert unused == [(1, 6), (8, 3)]


def test_batch_entries() -> None:
    store = golden_stores.unpack("lmq_batch_5.3.3")
    path = store.expect / "batchconsumequeue" / "BatchTopic" / "0" / f"{0:020d}"
    found = items(path)
    assert found[0] == {
        "kind": "entry", "at": 0, "position": 0, "physicalOffset": 0x1257, "size": 0x10E,
        "tagsCode": 0, "storeTimestamp": 0x15D3EF7A4DF, "baseOffset": 0, "batchSize": 1,
        "compactedOffset": -1, "reserved": 0}  # fmt: skip
    assert found[-1]["kind"] == "unused"
    assert found[-1]["position"] + found[-1]["entries"] == 300_000


@pytest.fixture
def index_file(tmp_path: Path) -> Callable[..., Path]:
    golden = sorted((golden_stores.unpack("tiny_5.3.3").expect / "index").iterdir())[0]

    def changed(at: int | None = None, value: int = 0) -> Path:
        data = bytearray(golden.read_bytes())
        if at is not None:
            struct.pack_into(">i", data, at, value)
        return written(tmp_path, "index/20240101000000000", bytes(data))

    return changed


SLOTS = ("--set", "maxHashSlotNum=100")


def test_slots_are_told_by_the_file_and_must_fit(index_file: Callable[..., Path], capsys) -> None:
    path = index_file()
    assert items(path) == items(path, *SLOTS)
    assert not of_kind(items(path, "--from", "9"), "slot")
    assert run(index_file(), "--set", "maxHashSlotNum=5000000") == USAGE
    assert "--set maxHashSlotNum=N" in capsys.readouterr().err


@pytest.mark.parametrize(("words", "message"), [
    (["README"], "no file of a store"),
    (["README", "--kind", "index"], "no index file of 5000000 slots"),
    (["commitlog"], "is a folder"), (["missing"], "no such file"), (["link"], "is a link"),
    (["checkpoint", "--bodies"], "only a commitlog holds messages"),
    (["checkpoint", "--part", "slots"], "--part is for index files"),
    (["checkpoint", "--set", "maxHashSlotNun=1"], "did you mean maxHashSlotNum"),
    (["checkpoint", "--rocketmq", "9.9.9"], "not a release"),
    (["large/checkpoint"], "are too many for a file of kind checkpoint")])  # fmt: skip
def test_wrong_use_is_named(tmp_path, words: list[str], message: str, monkeypatch, capsys) -> None:
    monkeypatch.chdir(tmp_path)
    written(tmp_path, "README", b"hello")
    written(tmp_path, "checkpoint", bytes(4096))
    written(tmp_path, "large/checkpoint", bytes((1 << 20) + 1))
    segment(tmp_path, bytes(100))
    (tmp_path / "link").symlink_to("checkpoint")
    assert run(*words) == USAGE
    captured = capsys.readouterr()
    assert message in captured.err
    assert captured.out == ""


@pytest.mark.parametrize("folder", ["commitlog", "dledger-n0/data"])
def test_the_release_is_that_of_the_file_s_store(folder: str, tmp_path, monkeypatch) -> None:
    looked = []
    monkeypatch.setattr(
        dump, "discover", lambda at, _: looked.append(at.path) or Mock(release="4.9.7")
    )
    path = f"{tmp_path}/{folder}/{0:020d}"
    found = dump._found(path, argparse.Namespace(assignments=[], broker_conf=None, rocketmq=None))
    assert found is not None
    assert found.release == "4.9.7"
    assert looked == [str(tmp_path)]


@pytest.mark.long
def test_memory_does_not_grow_with_the_file(tmp_path: Path) -> None:
    path = tmp_path / "commitlog" / f"{0:020d}"
    path.parent.mkdir()
    record = encode(Message(), 0)
    with path.open("wb") as file:
        file.write(record)
        file.truncate(1 << 30)
    run(segment(tmp_path / "small", log_bytes(Message())))  # compiles the kernels
    before = psutil.Process().memory_info().rss
    started = time.monotonic()
    peak = 0
    for line in dump_lines(str(path), "--json"):
        peak = max(peak, psutil.Process().memory_info().rss)
        assert json.loads(line)["kind"] in ("record", "zeros")
    assert peak - before < 100 << 20
    assert time.monotonic() - started < 60


def test_nothing_wants_a_release_and_a_number_is_not_negative(tmp_path: Path, capsys) -> None:
    path = segment(tmp_path, log_bytes(Message()))
    assert cli.main(["dump", str(path)]) == dump.DONE
    assert cli.main(["dump", str(path), "--rocketmq", "5.3"]) == dump.DONE
    assert cli.main(["dump", str(written(tmp_path, "checkpoint", bytes(4096)))]) == dump.DONE
    with pytest.raises(SystemExit):
        run("checkpoint", "--limit", "-1")
    assert "-1 is negative" in capsys.readouterr().err


@pytest.mark.parametrize("kind", FileKind)
def test_each_kind_of_file_is_shown(kind: FileKind, tmp_path, capsys) -> None:
    """Zeros are no sound file of most kinds, and are shown as what they are."""
    path = written(tmp_path, "zeros", bytes(4096))
    sizes = ["--set", "maxHashSlotNum=7", "--set", "maxIndexNum=20"]
    for words in ([], ["--json"]):
        code = cli.main(["dump", str(path), "--kind", kind, "--rocketmq", "5.3.3", *sizes, *words])
        assert code in (dump.DONE, dump.DAMAGE, USAGE)
    assert "should not happen" not in capsys.readouterr().err
