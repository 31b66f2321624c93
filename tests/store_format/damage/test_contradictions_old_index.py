"""The store's own index files as witnesses of keys and times."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from reput.jobs.pipeline.pipeline import Cut
from reput.store_format.layouts import INDEX_PUT
from reput.udfs.damage import witnesses
from reput.udfs.rebuild import index
from tests.damaged import SALVAGE, Damaged, damaged, messages
from tests.in_process import STORE, Rebuilt, Session, rebuild_log, storage_of
from tests.logs.encoder import properties
from tests.store_format.damage.generator import SEGMENT, derived_of

KEY = "topic/KEYS/UNIQ_KEY"


def keyed(count: int = 60) -> Damaged:
    """A log of which each message has two keys, stored a second after the one before."""
    made = [
        replace(m, properties=properties(("KEYS", f"a{n} b{n}")), store_timestamp=START + 1000 * n)
        for n, m in enumerate(messages(count))
    ]
    log = damaged(made, SEGMENT)
    return replace(log, settings={**log.settings, "maxHashSlotNum": 7, "maxIndexNum": 50})


START = 1_700_000_000_000


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
    assert found == [
        (places[0], "storeTimestamp"), (places[10], "magic"), (places[29], KEY),
        (places[30], "storeTimestamp"),
    ]  # fmt: skip
    assert named(salvage(log, {})) == [(places[10], "magic")]


def test_a_sound_log_is_not_asked_about() -> None:
    log = keyed()
    files = derived_of(log.log)
    flip_key(log, 29)
    assert named(salvage(log, files)) == []


def test_what_is_named_already_is_not_named_twice() -> None:
    log = keyed()
    files = derived_of(log.log)
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
