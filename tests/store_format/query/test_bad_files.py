"""Damaged and hostile stores: an answer may be short, which is reported, but it is never wrong."""

import random
import struct
import zlib
from pathlib import Path
from typing import Any

import pytest

import reput
from reput.jobs.cli import main
from reput.store_format.derived.index_reader import key_hash
from tests.built import write_log
from tests.logs import Message, build_log, properties
from tests.store_format.query import bad_files
from tests.store_format.query.asked import Asked, places
from tests.store_format.query.stores import asked

QUEUE_ENTRY = struct.Struct(">qiq")


@pytest.fixture
def small(tmp_path: Path) -> Asked:
    return Asked("small_all_5.3.3", tmp_path)


@pytest.mark.parametrize("step", [1, 3, -bad_files.MOST])
def test_a_chain_that_leads_forward_or_round_is_reported(small: Asked, step: int) -> None:
    file = bad_files.index_files(small)[0]
    bad_files.end_chains(
        file,
        lambda number: min(number + step, bad_files.MOST - 1) if step > 0 else bad_files.MOST - 1,
    )
    noted = 0
    with small.open() as opened:
        for (topic, key), wanted in small.by_key.items():
            answer = opened.query(topic, key)
            assert places(answer) == wanted
            noted += any("does not lead back" in note for note in answer.notes)
    assert noted


@pytest.mark.parametrize("how", bad_files.ENDS)
def test_a_chain_that_ends_in_damage_is_reported_and_the_log_is_read(small, how) -> None:
    file = bad_files.index_files(small)[0]
    bad_files.end_chains(file, bad_files.ENDS[how])
    short = noted = 0
    with small.open() as opened:
        for (topic, key), wanted in small.by_key.items():
            answer = opened.query(topic, key)
            assert places(answer) == wanted
            noted += any("previous" in note and str(file) in note for note in answer.notes)
            several = opened.query_keys(topic, [key, "no such key"])
            assert places(several) == wanted
            broker = opened.query(topic, key, as_rocketmq=True)  # as before: short, and no word
            short += places(broker) != wanted
            assert not any("previous" in note for note in broker.notes)
    assert noted
    assert short


def test_entries_that_point_elsewhere_or_are_lost_give_no_wrong_message(small, tmp_path) -> None:
    elsewhere = [1, 7, 1 << 40, -5, small.messages[3].physical_offset]
    for file in bad_files.index_files(small):
        raw = file.read_bytes()
        for number in range(2, bad_files.MOST - 1):  # the first and last tell where the index ends
            hashed, _, diff, previous = bad_files.ENTRY.unpack_from(raw, bad_files.entry_at(number))
            place = elsewhere[number % len(elsewhere)]
            bad_files.edited(
                file,
                bad_files.entry_at(number),
                bad_files.ENTRY.pack(hashed, place, diff, previous),
            )
    noted = set()
    with small.open() as opened:
        for (topic, key), wanted in small.by_key.items():
            answer = opened.query(topic, key)
            assert set(places(answer)) <= set(wanted)
            noted |= {note.split(":")[0] for note in answer.notes}
    assert any("where the log has none" in note or "log has none" in note for note in noted)
    assert any("but that message has not" in note for note in noted)
    small = Asked("small_all_5.3.3", tmp_path / "other")
    for file in bad_files.index_files(small):
        bad_files.edited(file, bad_files.entry_at(2), bytes(20 * (bad_files.MOST - 3)))
    with small.open() as opened:
        for (topic, key), wanted in small.by_key.items():
            if key_hash(topic, key) % bad_files.SLOTS:  # zeros look like an entry of the first slot
                assert places(opened.query(topic, key)) == wanted


def test_a_cut_index_file_is_reported_and_queue_entries_that_point_elsewhere_are_named(
    small,
) -> None:
    (topic, key), wanted = next(iter(small.by_key.items()))
    for file in bad_files.index_files(small):
        whole = file.read_bytes()
        for length in (0, 39, 41, len(whole) - 1):
            file.write_bytes(whole[:length])
            with small.open() as opened:
                answer = opened.query(topic, key)
                assert places(answer) == wanted
                assert any("index" in note for note in answer.notes)
        file.write_bytes(whole)
    topic, queue_id = max(
        {(each.topic, each.queue_id) for each in small.messages if each.transaction == 0},
        key=lambda queue: len(small.queued(*queue)),
    )
    wanted = [each.physical_offset for each in small.queued(topic, queue_id)]
    other = next(
        each for each in small.messages if (each.topic, each.queue_id) != (topic, queue_id)
    )
    (file, *_) = sorted((small.path / "consumequeue" / topic / str(queue_id)).iterdir())
    _, size, tags = QUEUE_ENTRY.unpack_from(file.read_bytes(), 0)
    for place, said in ((other.physical_offset, "of another queue"), (3, "no message there"),
                        (1 << 40, "no such place")):  # fmt: skip
        bad_files.edited(file, 0, QUEUE_ENTRY.pack(place, size, tags))
        with small.open() as opened:
            answer = opened.messages(topic, queue_id)
            assert places(answer) == wanted[1:]
            assert any(said in note and "position 0" in note for note in answer.notes)


def test_damage_in_the_log_costs_its_own_message_and_is_reported(small: Asked) -> None:
    damaged = small.messages[5]
    segment = damaged.physical_offset // 8192 * 8192
    file = small.path / "commitlog" / f"{segment:020d}"
    bad_files.edited(file, damaged.physical_offset - segment + 4, b"XXXX")
    reported = 0
    with small.open() as opened:
        for (topic, key), wanted in small.by_key.items():
            answer = opened.query(topic, key)
            assert places(answer) == [place for place in wanted if place != damaged.physical_offset]
            reported += bool(answer.notes)
        with pytest.raises(reput.StoreError, match="magic"):
            opened.message_at(damaged.physical_offset)
        everything = opened.messages(scan=True)
        behind = [place for place in small.by_place if place // 8192 != segment // 8192]
        before = [place for place in small.by_place if segment <= place < damaged.physical_offset]
        assert places(everything) == sorted([*before, *behind])
        (note,) = everything.notes
        assert f"physical {damaged.physical_offset}" in note
        assert "is not read" in note
    assert reported


def test_flipped_bits_in_derived_files_give_no_wrong_message(small: Asked) -> None:
    draw = random.Random(16)
    files = [path for path in small.path.rglob("*") if path.is_file() and "/commitlog/" not in
             str(path) and path.stat().st_size > 40 and "/config/" not in str(path)]  # fmt: skip
    keys = list(small.by_key.items())
    for _ in range(60):
        file = draw.choice(files)
        whole = file.read_bytes()
        at = draw.randrange(len(whole))
        bad_files.edited(file, at, bytes([whole[at] ^ 1 << draw.randrange(8)]))
        try:
            with small.open() as opened:
                for (topic, key), wanted in draw.sample(keys, 4):
                    assert set(places(opened.query(topic, key))) <= set(wanted)
                message = draw.choice(small.messages)
                found = opened.messages(message.topic, message.queue_id)
                queued = small.queued(message.topic, message.queue_id)
                assert set(places(found)) <= {each.physical_offset for each in queued}
                opened.topics()
        finally:
            file.write_bytes(whole)


# --- what others wrote reaches a terminal -------------------------------------------------------
def hostile_store(folder: Path) -> Path:
    evil = "\x1b]0;owned\x07\x1b[2J\r\n\u202e"
    messages = [
        Message(topic="../../evil\x1b[31m", body=evil.encode(),
                properties=properties(("KEYS", f"k {evil}"), ("TAGS", evil), (evil, evil))),
        Message(topic="T", body=b"\xff\xfe\x00", properties=properties(("KEYS", "k"))),
    ]  # fmt: skip
    return write_log(folder / "store", build_log(messages, 4096))


def test_control_characters_never_reach_the_terminal_and_a_body_goes_to_a_new_file_alone(
    tmp_path, capsys
) -> None:
    store = str(hostile_store(tmp_path))
    words = ["query", store, "--topic", "T", "--key", "k", "--body", str(tmp_path / "body")]
    assert main(words) == 0
    assert (tmp_path / "body").read_bytes() == b"\xff\xfe\x00"
    assert main(words) == 2  # it is there
    assert main([*words[:-1], f"{store}/commitlog/new"]) == 2
    capsys.readouterr()
    for words in (
        ["query", store, "--scan", "--body", "text"], ["topics", store], ["queues", store],
        ["query", store, "--topic", "../../evil\x1b[31m", "--key", "k"],
        ["query", store, "--topic", "../../evil\x1b[31m", "--queue", "0", "--offset", "0"],
        ["query", store, "--scan", "--json", "--body", "text"],
    ):  # fmt: skip
        assert main(words) == 0
        said = capsys.readouterr()
        assert said.out
        for text in (said.out, said.err):
            assert all(c.isprintable() or c == "\n" for c in text), words
    code, rows, _ = asked(capsys, "query", store, "--scan", "--body", "base64")
    assert (code, len(rows)) == (0, 2)


def test_a_body_is_decompressed_or_what_is_wrong_with_it_is_reported(tmp_path, capsys) -> None:
    sent = b"abc" * 1000
    messages = [
        Message(topic="T", queue_offset=n, body=body, sys_flag=1)
        for n, body in enumerate((zlib.compress(sent), sent[:90], zlib.compress(sent)))
    ]
    raw = bytearray(build_log(messages, 16384)[0])
    raw[raw.rindex(messages[2].body) + 20] ^= 1
    write_log(tmp_path, {0: raw})
    words = ("query", str(tmp_path), "--scan", "--body", "text")
    _, rows, said = asked(capsys, *words, "--decompress")
    assert [row["body"] for row in rows[:2]] == [sent.decode(), sent[:90].decode()]
    (second, crc, third) = said.splitlines()
    assert "says zlib, but" in second
    assert "bodyCRC does not match" in crc
    assert "says zlib, but" in third


@pytest.mark.parametrize(("words", "said"), [
    ([], "name what to look for"), (["--key", "k"], "--topic"), (["--queue", "1"], "--topic"),
    (["--topic", "T", "--key", "k", "--offset", "1", "--queue", "0"], "one of them"),
    (["--topic", "T", "--offset", "1"], "--queue"),
    (["--topic", "T", "--key", "k", "--as-rocketmq"], "--rocketmq"),
    (["--topic", "T", "--sql", "a >"], "column"), (["--message-id", "12"], "no message id"),
    (["--offset", "0", "--tags", "x"], "--tags: not obeyed where a place in the log is asked for"),
    (["--topic", "T", "--queue", "0", "--offset", "0", "--until", "9"], "--until: not obeyed"),
    (["--topic", "T", "--key", "k", "--queue", "0"], "--queue: not obeyed where --key"),
    (["--unique-key", "k", "--since", "0"], "--since: not obeyed where --unique-key"),
    (["--message-id", "0" * 32, "--sql", "a = 1"], "--sql: not obeyed"),
    (["--topic", "T", "--keys-file", "k", "--as-rocketmq"], "--as-rocketmq: not obeyed"),
    (["--topic", "T", "--scan", "--as-rocketmq", "--rocketmq", "5.3.3"], "never answers by --scan"),
    (["--topic", "T", "--keys-file", "no such file"], "--keys-file no such file: No such file"),
])  # fmt: skip
def test_wrong_usage_is_one_line(tmp_path, capsys, words: list[str], said: str) -> None:
    assert main(["query", str(hostile_store(tmp_path)), *words]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert said in line


@pytest.mark.parametrize("stored", [-(1 << 62), 253_402_300_800_000, 1 << 62])
def test_an_id_finds_a_message_with_a_store_time_of_no_calendar(tmp_path, capsys, stored) -> None:
    key = "0A000002000100000002000000010000"
    message = Message("T", properties=properties(("UNIQ_KEY", key)), store_timestamp=stored)
    store = write_log(tmp_path / "store", build_log([message], 4096))
    for said in ("the id is a client's", ""):
        words = ["--message-id", key] if said else ["--unique-key", key]
        code, rows, notes = asked(capsys, "query", str(store), *words)
        assert (code, [row["storeTimestamp"] for row in rows]) == (0, [stored])
        assert said in notes
        assert main(["query", str(store), *words]) == 0
        assert key in capsys.readouterr().out


def test_what_is_no_store_is_named(tmp_path: Path, capsys: Any) -> None:
    (tmp_path / "empty" / "commitlog").mkdir(parents=True)
    near = tmp_path / "near"
    near.mkdir()
    store = hostile_store(near)
    for command in ("query", "topics", "queues", "groups", "transactions"):
        words = ["--topic", "T"] if command == "query" else []
        assert main([command, str(tmp_path / "empty"), *words]) == 2
        assert "no segments" in capsys.readouterr().err
        assert main([command, str(near), *words]) == 2
        assert f"no such folder; did you mean {store}?" in capsys.readouterr().err
