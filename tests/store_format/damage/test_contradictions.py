"""Fields that no checksum covers: two witnesses must contradict one."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from reput.jobs.pipeline.pipeline import Cut
from reput.store_format.damage.contradictions import Neighbours, OldQueues, contradictions
from reput.store_format.derived.queue_files import decode_entries
from reput.store_format.faults import Fault
from reput.store_format.files.folder import Folder
from reput.store_format.layouts import INDEX_PUT, QUEUE_ENTRY
from reput.udfs.damage import witnesses
from reput.udfs.rebuild import index
from tests.damaged import ENTRY, SALVAGE, Damaged, damaged, messages
from tests.in_process import STORE, Rebuilt, Session, rebuild_log, storage_of
from tests.logs.encoder import HOST, Message, properties
from tests.memory_storage import MemoryStorage
from tests.store_format.damage.generator import SEGMENT, derived_of
from tests.store_format.damage.walked import RULES, walked

START = 1_700_000_000_512
FAR = 1 << 30  # a bit of a time: twelve days
ODD = START + 3 ^ FAR
BAD_HOST = bytes((127, 0, 0, 3)) + HOST[4:]
OTHER_HOST = bytes((127, 0, 0, 6)) + HOST[4:]


def log_of(count: int = 7, **over: Any) -> list[Message]:
    return [Message(store_timestamp=START + n, born_timestamp=START + n - 1, body=b"body", **over)
        for n in range(count)]  # fmt: skip


def marks(log: list[Message], lost: int | None = None) -> dict[int, Fault]:
    """The fault of each record, by its number; the record of number `lost` is no row."""
    raw, rows = walked(*log)
    kept = [n for n in range(len(log)) if n != lost]
    found = Neighbours(RULES).contradictions(raw, rows[kept])
    return {} if found is None else {kept[i]: Fault(found[i]) for i in np.flatnonzero(found)}


def with_third(**over: Any) -> list[Message]:
    log = log_of()
    log[3] = replace(log[3], **over)
    return log


def test_a_time_or_a_host_is_doubted_by_two_and_a_lost_seal_missed() -> None:
    for over, lost, fault in [
        ({}, None, None),
        ({"store_timestamp": ODD}, None, Fault.TIME),
        ({"store_timestamp": START + 3 ^ 1 << 62}, None, Fault.TIME),
        ({"store_timestamp": ODD, "born_timestamp": ODD}, None, None),
        ({"store_timestamp": ODD, "born_timestamp": ODD}, 2, Fault.TIME),
        ({"store_timestamp": ODD, "born_timestamp": ODD}, 4, Fault.TIME),
        # of two times as odd as each other its own is nearer to the born one, or theirs is
        ({"store_timestamp": ODD, "born_timestamp": START + (ODD - START) * 6 // 10}, None, None),
        ({"store_timestamp": ODD, "born_timestamp": START + (ODD - START) // 3}, None, Fault.TIME),
        ({"store_timestamp": START - 86_400_000}, None, None),  # no one bit makes it right
        # a clock is corrected by up to a second
        ({"store_timestamp": START + 3 - (1 << 9)}, 2, None),
        ({"store_timestamp": START + 3 + (1 << 8)}, 2, None),
        ({"store_timestamp": START + 3 + (1 << 10)}, 2, Fault.TIME),
        ({"store_timestamp": START + 3 - (1 << 11)}, 2, Fault.TIME),
        ({"store_host": BAD_HOST}, None, None),  # one witness
        ({"store_host": BAD_HOST}, 4, Fault.HOST),  # damage right beside it
        ({"store_host": OTHER_HOST}, 4, None),  # three bits: it may be another broker
    ]:
        assert marks(with_third(**over), lost) == ({} if fault is None else {3: fault})
    for text, lost, fault in [(SEALED, 2, None), (NEARLY, None, Fault.UNSEALED),
        (b"KEYS\x01k\x06" + SEALED, None, Fault.UNSEALED),  # or from the separator before it
        (b"KEYS\x01k\x02" + SEALED, 2, None), (b"KEYS\x01k\x07" + SEALED, None, None),
        (b"KEYS\x01k\x02", None, None),  # another release may have stored it
        (b"KEYS\x01k\x02", 2, Fault.UNSEALED), (b"KEYS\x01k\x02", 4, Fault.UNSEALED),
        (b"", 4, Fault.UNSEALED)]:  # fmt: skip
        log = log_of(properties=SEALED)
        log[3] = replace(log[3], properties=text)
        assert marks(log, lost) == ({} if fault is None else {3: fault})
    # The last records come again in the next window.
    log = with_third(store_timestamp=ODD)
    raw, rows = walked(*log)
    neighbours = Neighbours(RULES)
    assert neighbours.contradictions(raw, rows[:0]) is None
    assert neighbours.contradictions(raw, rows[:4]) is None
    found = neighbours.contradictions(raw, rows[3:])
    assert found is not None
    assert found.tolist() == [Fault.TIME, 0, 0, 0]


def test_the_first_and_the_last_records_lack_witnesses() -> None:
    for number in [0, 1, 5, 6]:
        log = log_of()
        log[number] = replace(log[number], store_host=BAD_HOST)
        assert marks(log, number + 1 if number < 3 else number - 1) == {}
    for number in [0, 6]:
        log = log_of()
        log[number] = replace(log[number], store_timestamp=START ^ FAR)
        assert marks(log) == {}
    sealed = log_of(properties=SEALED)
    assert marks([*sealed[:3], *log_of()[3:]], 4) == {}
    assert marks([*log_of()[:4], *sealed[4:]], 2) == {}


NEARLY = properties(("__CRC32'", "0000000000"))  # one bit from its name
SEALED = properties(("__CRC32#", "0000000000"))


# --- The store's own index files as witnesses of keys and times.
KEY = "topic/KEYS/UNIQ_KEY"


def keyed(count: int = 60) -> Damaged:
    """A log of which each message has two keys, stored a second after the one before."""
    made = [replace(m, properties=properties(("KEYS", f"a{n} b{n}")),
        store_timestamp=OLD_START + 1000 * n) for n, m in enumerate(messages(count))]  # fmt: skip
    log = damaged(made, SEGMENT)
    return replace(log, settings={**log.settings, "maxHashSlotNum": 7, "maxIndexNum": 50})


OLD_START = 1_700_000_000_000


def flip_key(log: Damaged, number: int) -> None:
    """In the last key of the only property."""
    log.flip(number, log.size(number) - 3, 2)


def salvage(log: Damaged, files: dict[str, bytes]) -> Rebuilt:
    storage = storage_of(log.log)
    storage.files |= {path: raw for path, raw in files.items() if "/index/" in path}
    return rebuild_log(log.log, Cut(SEGMENT, 2, 2), Session(), SALVAGE, storage)


def named(rebuilt: Rebuilt) -> list[tuple[int, str]]:
    ranges = rebuilt.summary.damage["ranges"]
    return [(found["physical_offset"], found["field"]) for found in ranges]


@pytest.fixture
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index, "_PUTS_A_READ", 5)
    monkeypatch.setattr(witnesses, "_ENTRIES_A_READ", 4)


@pytest.mark.usefixtures("small_pieces")
def test_a_changed_key_and_a_changed_time_are_named() -> None:
    """Three index files; the first entry's time in each is no witness (record 0's is changed)."""
    log = keyed()
    files = derived_of(log.log)
    assert sum("/index/" in path for path in files) == 3
    log.flip(10, 5)  # magic: only a log that is damaged is asked about
    log.flip(0, 61, 4)  # storeTimestamp, 1,048 s on; only one of its entries is its file's first
    flip_key(log, 29)
    log.flip(30, 62, 2)  # a second on
    log.flip(31, 63, 0)  # a millisecond: the same second
    found = named(salvage(log, files))
    places = log.places
    assert found == [(places[0], "storeTimestamp"), (places[10], "magic"), (places[29], KEY),
        (places[30], "storeTimestamp")]  # fmt: skip
    assert named(salvage(log, {})) == [(places[10], "magic")]


def test_what_is_named_already_or_of_a_sound_log_is_not_named() -> None:
    log = keyed()
    files = derived_of(log.log)
    flip_key(log, 29)
    assert named(salvage(log, files)) == []
    log.flip(29, 88, 0)  # the body
    flip_key(log, 29)
    assert named(salvage(log, files)) == [(log.places[29], "bodyCRC")]


@pytest.mark.parametrize("change", ["begin", "name", "count"])
def test_a_file_that_is_not_of_this_log_says_nothing(change: str) -> None:
    """Of another begin time, beside a foreign file, and one whose header counts more entries than
    there are.
    """
    log = keyed(20)
    files = derived_of(log.log)
    log.flip(10, 5)
    (path,) = (path for path in files if "/index/" in path)
    raw = bytearray(files[path])
    if change == "begin":
        raw[5] ^= 1
    elif change == "name":
        files[f"{STORE}/index/notes"] = b"x"
    else:
        raw[36] = 0x7F
    assert named(salvage(log, {**files, path: bytes(raw)})) == [(log.places[10], "magic")]


def test_pieces_have_all_puts_of_a_record() -> None:
    puts = np.zeros(40, INDEX_PUT)
    puts["physicalOffset"] = np.repeat([3, 5, 6, 9], [1, 20, 3, 16])

    def cut(size: int) -> Iterator[Any]:
        return (puts[at : at + size] for at in range(0, len(puts), size))

    for size in range(1, 45):
        pieces, found = witnesses._Pieces(cut(size)), []
        while pieces.puts is not None:
            found.append(pieces.puts)
            pieces.go_on()
        assert (np.concatenate(found) == puts).all()
        places = [set(piece["physicalOffset"].tolist()) for piece in found]
        assert sum(map(len, places)) == 4


# --- The store's own ConsumeQueue as a witness: what it says of each position.
FOLDER = "store/consumequeue/T/3"
Fields = tuple[int, int, int]


def raw(*entries: Fields) -> bytes:
    return b"".join(ENTRY.pack(*each) for each in entries)


def numbered(first: int, count: int) -> bytes:
    """A message of 100 bytes at each position, at 100 times the position."""
    return raw(*[(100 * n, 100, n) for n in range(first, first + count)])


def old(**files: bytes) -> Any:
    storage = MemoryStorage({f"{FOLDER}/{name}": content for name, content in files.items()})
    return OldQueues(Folder(storage, "store")).of("T", 3)


def sizes(found: Any) -> list[int]:
    return [int(each) for each in found["size"]]


TWO = {f"{100:020d}": numbered(5, 5), f"{200:020d}": numbered(10, 2) + bytes(60)}


def test_each_position_has_its_entry_and_another_one_contradicts_it() -> None:
    for first, wanted in [(0, [0, 0, 0]), (3, [0, 0, 100]),
        (8, [100, 100, 100]),  # over a file's end
        (10, [100, 100, 0]),  # a preallocated tail
        (15, [0, 0, 0]), (-2, [0, 0, 0]), ((1 << 63) // 20 - 5, [0, 0, 0])]:  # fmt: skip
        found = old(**TWO).at(first, 3)
        assert sizes(found) == wanted
        assert [int(e["physicalOffset"]) for e in found] == [
            100 * (first + n) if size else 0 for n, size in enumerate(wanted)
        ]
    content = raw((0, 0x7FFFFFFF, 0), (300, 0, 1), (300, -5, 1), (0, 100, 0)) + b"torn"
    queue = old(**{f"{0:020d}": content, "notes": b"x" * 60, f"{100:020d}": b""})
    assert sizes(queue.at(0, 6)) == [0, 0, 0, 100, 0, 0]
    for topic in ["U", "V"]:
        storage = MemoryStorage({f"{FOLDER}/{0:020d}": numbered(0, 5), "store/consumequeue/U": b""})
        queue = OldQueues(Folder(storage, "store")).of(topic, 3)
        assert not queue.any
        assert sizes(queue.at(0, 2)) == [0, 0]
    for topic in ["", ".", "../consumequeue/T", "a\\b", "T\0", "x" * 256]:
        storage = MemoryStorage({f"{FOLDER}/{0:020d}": numbered(0, 5)})
        assert not OldQueues(Folder(storage, "store")).of(topic, 3).any
    for mine, offset, numbers in [((700, 100, 7), 7, []), ((701, 100, 7), 7, [0]),
        ((700, 101, 7), 7, [0]), ((700, 100, -7), 7, [0]),
        ((700, 100, 7), 12, []),  # nothing is said of it
        ((700, 100, 7), -1, []), ((700, 100, 7), 1 << 58, []),
        ((700, 100, 7), (1 << 63) - 1, [])]:  # fmt: skip
        queue = old(**TWO)
        found, said = contradictions(queue, np.array([offset]), decode_entries(raw(mine)))
        assert found.tolist() == numbers
        assert [int(each["physicalOffset"]) for each in said] == [700 for _ in numbers]
    offsets = np.array([11, 1 << 60, 5, -9, 9, 5])
    mine = np.zeros(len(offsets), QUEUE_ENTRY)
    mine["size"] = 100
    found, said = contradictions(old(**TWO), offsets, mine)
    assert found.tolist() == [0, 2, 4, 5]
    assert [int(each["tagsCode"]) for each in said] == [11, 5, 9, 5]
    assert len(contradictions(old(**TWO), offsets[:0], mine[:0])[0]) == 0
