"""Names of segments and index files, and topics that must not become folders."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reput.jobs.outputs.publish import name_files
from reput.store_format import names as module
from reput.store_format.derived.index_names import NameZone
from reput.store_format.faults import StoreError
from reput.store_format.notes import Notes

LAST_MILLISECOND = 253_402_300_799_999  # 9999-12-31T23:59:59.999Z


@pytest.mark.parametrize(("offset", "name"), [
    (0, "00000000000000000000"), (1 << 30, "00000000001073741824"),
    (6_000_000, "00000000000006000000"), ((1 << 63) - 1, "09223372036854775807"),
])  # fmt: skip
def test_a_segment_is_named_by_its_offset(offset: int, name: str) -> None:
    assert module.segment_name(offset) == name
    assert module.parse_segment_name(name) == offset


def test_no_segment_has_an_offset_that_is_no_long_and_plain_queues_are_taken() -> None:
    with pytest.raises(ValueError, match="negative"):
        module.segment_name(-1)
    with pytest.raises(ValueError, match="more than a long holds"):
        module.parse_segment_name("99999999999999991808")
    assert str(module.QueuePath("consumequeue", "T", 3)) == "consumequeue/T/3"
    module.refuse_foreign("s", folders())
    module.refuse_foreign("s", folders(consumequeue=["TopicA", "current", "CURRENT.bak"]))
    module.refuse_foreign("s", folders(**EXT))  # #6343: the topic was deleted


@pytest.mark.parametrize("name", [
    "", "0", "0" * 19, "0" * 21, "-" + "0" * 19, "+" + "0" * 19, "0" * 19 + "x", " " + "0" * 19,
    "0" * 19 + "\n", "\u0660" * 20, "\u00b2" * 20, "0" * 17 + ".gz", "1_0".zfill(20),
])  # fmt: skip
def test_what_is_no_segments_name(name: str) -> None:
    with pytest.raises(ValueError, match="not a segment's name"):
        module.parse_segment_name(name)


@pytest.mark.parametrize(("time", "name"), [
    (0, "19700101000000000"), (1, "19700101000000001"), (1_700_000_000_123, "20231114221320123"),
    (951_782_400_000, "20000229000000000"), (-1, "19700101000000000"),
    (LAST_MILLISECOND, "99991231235959999"), (LAST_MILLISECOND + 1, "99991231235959999"),
    ((1 << 63) - 1, "99991231235959999"), (-(1 << 63), "19700101000000000"),
])  # fmt: skip
def test_an_index_file_is_named_by_a_time(time: int, name: str) -> None:
    assert module.index_name(time) == name
    assert module.parse_index_name(name) == min(max(time, 0), LAST_MILLISECOND)


@given(st.lists(st.integers(-(1 << 63), LAST_MILLISECOND - 100), min_size=2, max_size=20))
def test_index_names_ascend_whatever_the_clock_says(times: list[int]) -> None:
    names = []
    previous = None
    for wanted in times:
        previous = module.next_index_time(wanted, previous)
        names.append(module.index_name(previous))
    assert names == sorted(set(names))
    assert names[0] == module.index_name(times[0])


@pytest.mark.parametrize("name", [
    "", "2023", "2023111422132012", "202311142213201234", "2023-11-14221320", "20231314221320123",
    "20231114256320123", "20230229000000000", "\u0662" * 17,
])  # fmt: skip
def test_what_is_no_index_files_name(name: str) -> None:
    with pytest.raises(ValueError):
        module.parse_index_name(name)


@pytest.mark.parametrize("topic", ["T", "%RETRY%group", "%LMQ%a", "a.b", "...",
                                   ".hidden", " ", "\u4e3b\u9898", "x" * 255,
                                   "\U0001f680" * 63, "con", "a:b", "\ufffd", "-"])  # fmt: skip
def test_a_topic_that_can_be_a_folder(topic: str) -> None:
    assert module.check_topic(topic) == topic


@pytest.mark.parametrize(("topic", "reason"), [
    ("", "not a folder's name"), (".", "not a folder's name"), ("..", "not a folder's name"),
    ("../../../../evil", "path separator"), ("/etc", "path separator"), ("a/b", "path separator"),
    ("a\\b", "path separator"), ("a/", "path separator"), ("a\0b", "NUL"),
    ("x" * 256, "longer than 255 bytes"), ("\u4e3b" * 86, "longer than 255 bytes"),
    ("\U0001f680" * 64, "longer than 255 bytes"),
])  # fmt: skip
def test_a_topic_that_must_not_become_a_folder(topic: str, reason: str) -> None:
    with pytest.raises(module.UnsafeName, match=reason) as caught:
        module.check_topic(topic)
    assert len(str(caught.value)) < 200  # of a long name only the start


@pytest.mark.parametrize("start", [None, "99991231235959998"])
def test_index_files_stay_apart_at_the_end_of_time(start: str | None) -> None:
    begins = [5, 1_700_000_000_000, (1 << 63) - 1, 1_700_000_001_000]
    built = [{"name": "x", "folder": "index", "number": n, "begin": begin}
             for n, begin in enumerate(begins)]  # fmt: skip
    paths = [
        row["path"] for row in name_files(built, None, start, NameZone("UTC", "", lambda _: 0))
    ]
    assert paths == sorted(set(paths))
    if start is None:
        assert paths[:2] == ["index/19700101000000005", "index/20231114221320000"]
    assert paths[-1] == "index/99991231235959999"


# --- Stores whose queues, or some of them, reput does not build are known by their files.
EXT = {"consumequeue_ext": ["TopicA"], "consumequeue_ext/TopicA": ["0"]}


def folders(**names: list[str]) -> Callable[[str], list[str]]:
    return lambda folder: names.get(folder, [])


@pytest.mark.parametrize("even_rocksdb", [False, True])
@pytest.mark.parametrize(
    ("store", "named"), [("s", "s/consumequeue_ext"), ("", "consumequeue_ext")]
)
def test_queues_with_ext_files_are_always_refused(even_rocksdb, store, named) -> None:
    with pytest.raises(StoreError, match=f"^{named}: .*enableConsumeQueueExt"):
        module.refuse_foreign(
            store, folders(**EXT, **{"consumequeue_ext/TopicA/0": ["0"]}), even_rocksdb
        )


@pytest.mark.parametrize("folder", ["consumequeue", "consumequeue_rocksdb"])
def test_queues_in_rocksdb_are_refused_where_files_would_be_replaced(folder: str) -> None:
    names = folders(**{folder: ["000004.log", "CURRENT", "TopicA"]})
    with pytest.raises(StoreError, match=f"^s/{folder}/CURRENT: .*storeType"):
        module.refuse_foreign("s", names)
    module.refuse_foreign("s", names, even_rocksdb=True)


@pytest.mark.parametrize(("files", "rows"), [
    ([], False), ([("CURRENT", 16), ("MANIFEST-000005", 200), ("LOG", 40_000)], False),
    ([("000004.log", 0)], False),  # opened, and nothing put
    ([("000004.log", 1)], True), ([("000009.sst", 0)], True),
    ([("000004.log", 0), ("000009.sst", 900), ("000010.log", 0)], True),
])  # fmt: skip
def test_a_database_has_rows_in_tables_or_in_its_write_ahead_log(files, rows) -> None:
    assert module.holds_rows(files) == rows


# --- What a query reports besides its messages: each line once, in order, and never too many.
MORE = "more was skipped; only the first 100 places are named"


def test_a_line_is_said_only_once_a_place_counts_once_and_a_note_takes_no_room() -> None:
    said: list[str] = []
    notes = Notes(said.append)
    for text in ("b", "a", "b"):
        notes.note(text)
        assert said == notes.lines
    assert notes.lines == ["b", "a"]
    notes = Notes()
    for _ in range(200):
        notes.skip("skipped 0")
    for place in range(100):
        notes.skip(f"skipped {place}")
    assert len(notes.lines) == 100
    assert MORE not in notes.lines
    notes = Notes()
    for number in range(150):
        notes.note(f"note {number}")
    notes.skip("skipped")
    assert len(notes.lines) == 151


@pytest.mark.parametrize(
    ("places", "more"), [(0, []), (1, []), (100, []), (101, [MORE]), (5000, [MORE])]
)
def test_a_hundred_skipped_places_are_named(places: int, more: list[str]) -> None:
    notes = Notes()
    for place in range(places):
        notes.skip(f"skipped {place}")
    assert notes.lines == [f"skipped {place}" for place in range(min(places, 100))] + more
