"""Messages by a key: through the index or the log, by times, and as a broker answers."""

import os
import random
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import reput
from reput.jobs.opening.questions import Store
from reput.store_format.derived import index_file
from reput.store_format.derived.index_reader import BadIndex, IndexFileReader, key_hash
from reput.store_format.files.local import LocalStorage
from reput.store_format.filter.rows import Match
from reput.store_format.layouts import INDEX_ENTRY, INDEX_HEADER
from reput.store_format.log.columns import records_at
from reput.store_format.log.record import record_from
from reput.store_format.message.ids import BadMessageId
from reput.store_format.message.message import parse_properties
from reput.store_format.query import by_key as module
from reput.store_format.query.by_keys import WantedKeys
from tests.built import write_log
from tests.logs import Message, build_log, properties
from tests.store_format.log.windows import RULES, window_of
from tests.store_format.query.asked import NAMES, Asked, places
from tests.store_format.query.bad_files import ENTRY, MOST, SLOTS, edited, entry_at, index_files
from tests.store_format.query.derived_stores import Derived
from tests.store_format.query.stores import asked

START = 1_700_000_000_000
# Every third message has the key `x`, each its own; number 9 is rolled back, 12 of another topic.
MESSAGES = [
    Message("U" if n == 12 else "T", 0, n, b"b",
            properties(("KEYS", f"k{n:02}" + (" x" if n % 3 == 0 else ""))), START + 1000 * n,
            0xC if n == 9 else 0) for n in range(40)
]  # fmt: skip
OF_X = [n for n in range(0, 40, 3) if n not in (9, 12)]


@pytest.fixture
def store() -> Derived:
    return Derived(MESSAGES)


def found(store: Derived, key: str = "x", from_log: bool = False, **asked: Any) -> list[int]:
    topics = asked.pop("topics", ["T"])
    with store.open() as opened:
        messages = module.by_key(
            opened, topics, key, lambda each: each.topic in topics and each.has_key(key),
            from_log, store.notes, **asked,
        )  # fmt: skip
        return store.numbers(list(messages))


@pytest.mark.parametrize("from_log", [False, True])
def test_all_messages_of_a_key_in_the_logs_order(store: Derived, from_log: bool) -> None:
    assert found(store, from_log=from_log) == OF_X
    assert found(store, "k07", from_log) == [7]
    assert found(store, "k09", from_log) == []  # rolled back
    assert found(store, "none", from_log) == []
    assert found(store, topics=["T", "U"], from_log=from_log) == sorted([*OF_X, 12])
    assert store.notes.lines == []


@pytest.mark.parametrize(("begin", "end", "first", "last"), [
    (6000, None, 6, 39), (6001, None, 15, 39), (None, 6000, 0, 6), (None, 5999, 0, 3),
    (6000, 6000, 6, 6), (6001, 14_999, 99, 99),
])  # fmt: skip
def test_times_are_exact_and_both_included(store, begin, end, first, last) -> None:
    times = tuple(None if each is None else START + each for each in (begin, end))
    wanted = [n for n in OF_X if first <= n <= last]
    assert found(store, times=times) == wanted
    assert found(store, from_log=True, times=times) == wanted


def test_what_has_expired_is_noted_once(store: Derived) -> None:
    store.remove("commitlog/00000000000000000000")
    assert found(store) == [n for n in OF_X if store.places[n] >= 2048]
    assert store.notes.lines == ["some messages that the index still has have expired from the log"]


def test_a_place_without_a_message_or_with_another_is_noted(store: Derived) -> None:
    places = [store.places[3], store.places[4] + 1, 1 << 40]
    with store.open() as opened:
        assert store.numbers(list(module.read(opened, places, store.notes))) == [3]
    assert [each.split(":")[0] for each in store.notes.lines] == [
        "the index has a message there, and the log has none",
        f"the index has a message at {1 << 40}, where the log has none",
    ]
    store = Derived(MESSAGES)
    with store.open() as opened:
        message = opened.message(opened.log.record_at(store.places[3]))
        for hashes, lines in (({key_hash("T", "x")}, 0), ({key_hash("T", "y")}, 1)):
            module.note_if_wrong(message, hashes, store.notes)
            assert len(store.notes.lines) == lines


@pytest.mark.parametrize(("most", "count", "cut"), [(64, 12, False), (13, 12, False), (5, 5, True)])
def test_a_broker_gives_the_newest_with_the_hash(store, most, count, cut) -> None:
    with store.open() as opened:
        messages = list(module.as_broker(opened, "T", "x", None, None, most, store.notes))
    assert store.numbers(messages) == OF_X[-count:]
    assert (store.notes.cut, len(store.notes.lines)) == (cut, int(cut))


# --- Messages by an id: the broker's by its place and host, else the client's by its key.
HOST = bytes((10, 0, 0, 2, 0, 0, 0x2A, 0x9F))
V6 = bytes(15) + b"\1" + HOST[4:]
NOVEMBER_2023 = 1_698_796_800_000  # 2023-11-01T00:00:00Z
KEYS = [f"0A000002000100000002{n:08X}0000" for n in range(5)]
MESSAGES_BY = [
    Message("T", 0, 0, b"", properties(("UNIQ_KEY", KEYS[0])), NOVEMBER_2023 + 9, store_host=HOST),
    Message("U", 0, 0, b"", properties(("UNIQ_KEY", KEYS[1])), NOVEMBER_2023 + 9, store_host=HOST),
    Message("T", 0, 1, b"", properties(("UNIQ_KEY", KEYS[0])), NOVEMBER_2023 + 9, store_host=HOST),
    Message("T", 0, 2, b"", properties(("KEYS", KEYS[3])), store_host=V6, sys_flag=0x20),
    Message("T", 0, 3, b"", properties(("UNIQ_KEY", KEYS[4].lower())), store_host=HOST),
]


@pytest.fixture
def by_id() -> Derived:
    return Derived(MESSAGES_BY)


def found_by(
    store: Derived, text: str, topic: str | None = None, from_log: bool = False
) -> list[int]:
    with store.open() as opened:
        names = ["T", "U"] if topic is None else [topic]
        messages = module.by_message_id(opened, text, topic, names, from_log, store.notes)
        return store.numbers(list(messages))


def broker_id(store: Derived, number: int, host: bytes = HOST) -> str:
    return f"{host.hex()}{store.places[number]:016x}"


@pytest.mark.parametrize("number", [0, 1, 4])
def test_a_brokers_id_is_a_place_of_its_host(by_id: Derived, number: int) -> None:
    text = broker_id(by_id, number)
    assert found_by(by_id, text) == found_by(by_id, text.upper()) == [number]
    assert by_id.notes.lines == [
        f"the id is a broker's: broker 10.0.0.2:10911, physical offset {by_id.places[number]}"
    ]


def test_a_host_has_to_be_the_record_s_a_topic_if_it_is_asked_and_who_a_message_is(by_id) -> None:
    assert found_by(by_id, broker_id(by_id, 3, V6)) == [3]
    for text in (broker_id(by_id, 3), broker_id(by_id, 0, V6),
                 broker_id(by_id, 0, HOST[:7] + b"\0")):  # fmt: skip
        assert found_by(by_id, text) == []
    assert f"{HOST.hex()}{by_id.places[1] + 1:016x}" != broker_id(by_id, 1)
    assert found_by(by_id, f"{HOST.hex()}{by_id.places[1] + 1:016x}") == []
    text = broker_id(by_id, 1)
    assert (found_by(by_id, text, "U"), found_by(by_id, text, "T")) == ([1], [])
    assert (found_by(by_id, KEYS[1], "U"), found_by(by_id, KEYS[1], "T")) == ([1], [])
    text = broker_id(by_id, 0)
    with by_id.open() as opened:
        assert module.who_is(opened, text) == (KEYS[0], text.upper())
        assert module.who_is(opened, broker_id(by_id, 3, V6))[0] == ""
        for other in (KEYS[1], "any text", broker_id(by_id, 3)):
            assert module.who_is(opened, other) == (other, "")


@pytest.mark.parametrize("from_log", [False, True])
def test_a_clients_id_is_the_unique_key_of_some_messages(by_id: Derived, from_log: bool) -> None:
    assert found_by(by_id, KEYS[0], from_log=from_log) == [0, 2]
    assert found_by(by_id, KEYS[0].lower(), from_log=from_log) == [0, 2]
    assert found_by(by_id, KEYS[4].lower(), from_log=from_log) == [4]
    assert found_by(by_id, KEYS[3], from_log=from_log) == []  # KEYS is no UNIQ_KEY


def test_of_a_clients_id_the_time_is_told_and_an_id_of_nothing_and_no_id_refused(by_id) -> None:
    found_by(by_id, KEYS[1])
    assert by_id.notes.lines == [
        "the id is a client's: client 10.0.0.2, process 1, class loader 00000002, 1 ms after its "
        f"month began, counter 0, which is {NOVEMBER_2023 + 1} in UTC"
    ]
    assert found_by(by_id, KEYS[2]) == []
    assert by_id.notes.lines[-1].startswith(
        "the id is found neither as a broker's (broker 10.0.0.2:"
    )
    for text in ("", "x", KEYS[0][1:]):
        with pytest.raises(BadMessageId):
            found_by(by_id, text)


# --- Many keys at once give what each gives alone, on whole, damaged and hostile stores.
def singly(
    opened: Store, topic: str, keys: list[str], **options: Any
) -> tuple[list[int], set[str]]:
    """What the keys find one after the other, in the log's order, and what is reported of it."""
    found, notes = set(), set[str]()
    for key in keys:
        answer = opened.query(topic, key, **options)
        found |= set(places(answer))
        notes |= set(answer.notes)
    return sorted(found), notes


def keys_by_topic(store: Asked) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for topic, key in store.by_key:
        found.setdefault(topic, []).append(key)
    return found


@pytest.mark.parametrize("name", NAMES)
def test_many_keys_find_what_each_finds_alone(name: str, tmp_path: Path) -> None:
    store, draw = Asked(name, tmp_path), random.Random(7)
    times = sorted(each.store_timestamp for each in store.messages)
    with store.open() as opened:
        for topic, keys in keys_by_topic(store).items():
            some = [*draw.sample(keys, min(len(keys), 30)), "no such key", f"{keys[0]} ", "T#A"]
            for begin in (None, draw.choice(times)):
                for end in (None, draw.choice(times)):
                    wanted, _ = singly(opened, topic, some, begin=begin, end=end)
                    answer = opened.query_keys(topic, some, begin=begin, end=end)
                    assert (places(answer), answer.notes) == (wanted, [])
            answer = opened.query_keys(topic, some)
            found = list(answer)
            assert [each.row() for each in found] == [
                opened.message_at(each.physical_offset).row() for each in found
            ]
            assert [each.body() for each in found] == [
                store.by_place[each.physical_offset].body for each in found
            ]
            alone = [key for key in dict.fromkeys(some) if not list(opened.query(topic, key))]
            assert answer.missing == alone
            scanned = opened.query_keys(topic, some, scan=True)
            assert (places(scanned), scanned.missing) == (places(found), alone)
        assert list(opened.query_keys("no such topic", ["k"])) == []
        assert list(opened.query_keys(topic, [])) == []


def test_small_blocks_and_hits_handed_over_one_by_one(tmp_path, monkeypatch) -> None:
    store = Asked("small_all_5.3.3", tmp_path)
    monkeypatch.setattr(index_file, "_HITS", 1)
    (file, *_) = index_files(store)
    with IndexFileReader(LocalStorage(), str(file), SLOTS, MOST) as reader:
        hashes = np.unique([reader.entry(n).key_hash for n in range(1, reader.header.entries + 1)])
        for block_bytes in (1, 20, 60, 1 << 20):
            found = sorted(
                int(number)
                for some in index_file.sweep(reader, hashes.astype(np.int32), block_bytes)
                for number in some["number"]
            )
            assert found == sorted(entry.number for hashed in hashes.tolist()
                                   for entry in reader.chain(hashed)
                                   if entry.key_hash == hashed)  # fmt: skip


def test_chains_of_any_entries_end_as_they_do_alone(tmp_path: Path) -> None:
    """Chains with a random fault: the sweep finds what `chain` does, or says what it says."""
    draw, storage = np.random.default_rng(16), LocalStorage()
    path = str(tmp_path / "20261122000000000")
    bad = 0
    for _ in range(150):
        header, slots = np.zeros(1, INDEX_HEADER), np.zeros(SLOTS, ">i4")
        header["indexCount"] = next_entry = int(draw.choice([0, 1, 2, MOST - 1, MOST]))
        entries = np.zeros(MOST, INDEX_ENTRY)
        entries["keyHash"] = draw.integers(0, 4, MOST) + SLOTS * draw.integers(0, 2, MOST)
        entries["physicalOffset"] = draw.integers(0, 1 << 40, MOST)
        for number in range(1, next_entry):
            slot = entries["keyHash"][number] % SLOTS
            entries["previous"][number], slots[slot] = slots[slot], number
        parts = [slots, entries["keyHash"], entries["previous"], header["indexCount"], np.zeros(1)]
        damaged = parts[draw.integers(len(parts))]
        damaged[draw.integers(len(damaged))] = draw.integers(-1, MOST + 4)
        Path(path).write_bytes(header.tobytes() + slots.tobytes() + entries.tobytes())
        hashes = np.arange(4, dtype=np.int32)
        with IndexFileReader(storage, path, SLOTS, MOST) as reader:
            alone, said = [], set()
            for hashed in range(4):
                try:
                    chain = [each for each in reader.chain(hashed) if each.key_hash == hashed]
                    alone += [(each.number, each.physical_offset) for each in chain]
                except BadIndex as error:
                    said.add(str(error))
            try:
                found = sorted(
                    (int(row["number"]), int(row["physicalOffset"]))
                    for some in index_file.sweep(reader, hashes, 60) for row in some
                )  # fmt: skip
                assert (found, said) == (sorted(alone), set())
            except BadIndex as error:
                assert str(error) in said  # noqa: PT017 (which of several is found first is open)
                bad += 1
    assert 10 < bad < 140


@pytest.mark.parametrize("damage", ["chains", "entries", "no index", "behind", "cut", "log"])
def test_damage_is_skipped_and_reported_as_for_each_alone(damage: str, tmp_path: Path) -> None:
    store = Asked("small_all_5.3.3", tmp_path)
    files = index_files(store)
    if damage in ("chains", "entries"):
        for file in files[:1] if damage == "chains" else files:
            raw = file.read_bytes()
            for number in range(2, MOST - 1):
                hashed, place, diff, previous = ENTRY.unpack_from(raw, entry_at(number))
                if damage == "chains":
                    previous = number + 1
                else:
                    place = (1, 7, 1 << 40, -5, place)[number % 5]
                edited(file, entry_at(number), ENTRY.pack(hashed, place, diff, previous))
    elif damage == "no index":
        shutil.rmtree(store.path / "index")
    elif damage == "behind":
        files[-1].unlink()
    elif damage == "cut":
        os.truncate(files[1], 41)
    else:
        broken = store.messages[5].physical_offset
        file = store.path / "commitlog" / f"{broken // 8192 * 8192:020d}"
        edited(file, broken % 8192 + 4, b"XXXX")
    reported = 0
    with store.open() as opened:
        for topic, keys in keys_by_topic(store).items():
            wanted, notes = singly(opened, topic, keys)
            answer = opened.query_keys(topic, keys)
            found = places(answer)
            truth = {place for key in keys for place in store.by_key[topic, key]}
            assert set(wanted) <= set(found) <= truth
            if damage != "chains":  # one bad chain has the log read for all keys
                assert (found, set(answer.notes)) == (wanted, notes)
            else:
                assert set(found) == truth
                assert {note for note in answer.notes if "does not lead back" in note} <= notes
            reported += len(answer.notes)
    assert reported


def test_keys_and_topics_of_strange_bytes(tmp_path: Path) -> None:
    """Java decodes what is not UTF-8 to U+FFFD, so that different bytes are one key."""
    messages = [
        Message(topic="T", body=b"x" * size, properties=b"KEYS\x01" + keys + b"\x02TAGS\x01g\x02")
        for size, keys in [
            (1, b"\xff"), (5000, b"\xfe a"), (70000, b"a b"), (3, "\N{GRINNING FACE}".encode()),
            (4, "\ufffd".encode()), (5, b"T#g"), (6, b"b"), (2040, b"b  c"),
        ]
    ]  # fmt: skip
    messages.append(Message(topic="T2", body=b"b", properties=properties(("UNIQ_KEY", "b"))))
    write_log(tmp_path, build_log(messages, 1 << 17))
    keys = ["\ufffd", "a", "b", "c", "\N{GRINNING FACE}", "T#g", "T#", "T#h", "U\4g", "\ud800", ""]
    with reput.open_store(str(tmp_path)) as opened:
        everything = list(opened.messages())
        for topic in ("T", "T2"):
            for some in [*([key] for key in keys), keys]:
                wanted, _ = singly(opened, topic, some)
                assert places(opened.query_keys(topic, some)) == wanted
        assert places(opened.query_keys("T", keys)) == places(everything)[:-1]
        at = np.array([*places(everything), 1, 1 << 40, -3])
        at.sort()
        (some,) = records_at(opened._opened.log, at)
        whole = [each.physical_offset for each in everything if each.record.size <= 2048]
        assert some.rows["physicalOffset"].tolist() == whole
        assert sorted(some.others) == sorted(set(at.tolist()) - set(whole))
        (none,) = records_at(opened._opened.log, np.array([-5, 1 << 50]))
        assert (len(none.rows), none.others) == (0, [-5, 1 << 50])


def test_the_command_reads_a_file_of_keys(tmp_path: Path, capsys: Any) -> None:
    store = Asked("small_all_5.3.3", tmp_path)
    topic, keys = max(keys_by_topic(store).items(), key=lambda item: len(item[1]))
    file = tmp_path / "keys"
    file.write_bytes("\r\n".join([*keys[:9], "", "not there", "nor \x1b[31m this"]).encode())
    words = ("query", str(store.path), "--topic", topic, "--keys-file", str(file))
    code, rows, said = asked(capsys, *words)
    wanted = {place for key in keys[:9] for place in store.by_key[topic, key]}
    assert (code, [row["physicalOffset"] for row in rows]) == (0, sorted(wanted))
    (line,) = said.splitlines()
    assert "2 of the keys were not found: 'not there', 'nor " in line
    assert "\x1b" not in line
    assert len(asked(capsys, *words, "--max", "2")[1]) == 2
    file.write_bytes(b"a\n\xff\n")
    assert asked(capsys, *words)[0] == 2
    for more in (["--key", "k"], ["--as-rocketmq", "--rocketmq", "5.3.3"]):
        assert asked(capsys, *words, *more)[0] == 2
    assert asked(capsys, *words[:-1], str(tmp_path / "nowhere"))[0] == 2


# --- Many keys of one topic: which messages have one, at once and one by one, and what is
# missing.
NO, YES, ASK = Match.NO, Match.YES, Match.ASK


def judged(wanted: WantedKeys, *messages: Message, split: bool = False) -> list[Match]:
    """The verdicts on a window; each that is sure is what one message alone gives."""
    window, rows = window_of(messages)
    found = [Match(one) for one in wanted.judge_rows(window, rows, split).tolist()]
    alone = WantedKeys(wanted.topic, wanted.keys)
    for row, verdict in zip(rows.tolist(), found, strict=True):
        record = record_from(window.data, row, RULES)
        said = alone.matches(record, parse_properties(record.properties, split), bytes)
        assert verdict in (ASK, YES if said else NO)
    return found


def message(topic: str = "T", sys_flag: int = 0, **named: str) -> Message:
    names = {"keys": "KEYS", "unique": "UNIQ_KEY", "tags": "TAGS"}
    pairs = [(names[name], value) for name, value in named.items()]
    return Message(topic, properties=properties(*pairs), sys_flag=sys_flag)


def test_a_message_counts_by_any_of_its_keys_as_text_and_what_none_had_is_missing() -> None:
    wanted = WantedKeys("T", ["u", "k2", "T#t"])
    assert judged(
        wanted, message(unique="u"), message(keys=" k1  k2 "), message(tags="t"), message(keys="u"),
        message(unique="k1", keys="k"), message(tags="u"), message(keys="k2 "), Message(),
    ) == [YES, YES, YES, YES, NO, NO, YES, NO]  # fmt: skip
    wanted = WantedKeys("T", ["k"])
    assert judged(
        wanted, message("TT", keys="k"), message("U", keys="k"), message(keys="k", sys_flag=0xC),
        message(keys="k", sys_flag=4), message(keys="k", sys_flag=8),
    ) == [NO, NO, NO, YES, YES]  # fmt: skip
    # `Aa` and `BB` have one hash code, and so has every text with one in the other's place.
    wanted = WantedKeys("T", ["AaAa", "BBBB"])
    values = ("AaAa", "BBBB", "AaBB", "BBAa")
    assert judged(wanted, *(message(keys=value) for value in values)) == [YES, YES, NO, NO]
    assert len(wanted.index_hashes) == 1
    wanted = WantedKeys("T", ["a", "b", "a", "c"])
    assert (wanted.keys, wanted.missing) == (["a", "b", "c"], ["a", "b", "c"])
    judged(wanted, message(keys="c x"), message("U", keys="a"))
    assert wanted.missing == ["a", "b"]
    judged(wanted, message(unique="b", keys="a"))
    assert wanted.missing == []
    wanted = WantedKeys("T", [])
    assert judged(wanted, message(keys="k")) == [NO]
    assert (wanted.missing, wanted.index_hashes.tolist()) == ([], [])
    one = Message(b"T\xff", properties=properties(("KEYS", "k")))
    assert judged(WantedKeys("T\ufffd", ["k"]), one, message(keys="x")) == [ASK, ASK]


@pytest.mark.parametrize(("raw", "key", "verdict"), [
    ("\xe9", "\xe9", YES), ("\U0001f600", "\U0001f600", YES), (b"\xff", "\ufffd", ASK),
    (b"\xef\xbf\xbd", "\ufffd", ASK), (b"\xff", "\xe9", NO), (b"x", "\ufffd", NO),
])  # fmt: skip
def test_a_key_that_malformed_bytes_may_mean_is_asked_for(raw, key, verdict) -> None:
    one = Message("T", properties=properties(("KEYS", raw)))
    assert judged(WantedKeys("T", [key]), one) == [verdict]
