"""Sections of a page on queues, groups, index, fates and the disk: what each says and draws."""

from typing import Any

import pytest

from reput.broker.change.expire import FileToDelete
from reput.jobs.in_place.expire import Expired
from reput.jobs.page.facts import DiskPart, Facts
from reput.jobs.page.model import Section
from reput.jobs.page.store_sections import (
    disk_section,
    fates_section,
    groups_section,
    index_section,
    queues_section,
)
from reput.store_format.derived.index_header import IndexHeader
from reput.store_format.derived.index_reader import IndexFileStats
from reput.store_format.fate.rows import FateSums
from reput.store_format.query.inventory import GroupRow, QueueRow

AT = 1_700_000_000_000


def facts(**known: Any) -> Facts:
    return Facts("/s", AT + 60_000, 0, 4096, 1, **known)


def bars(section: Section, number: int = 0) -> list[tuple[str, float]]:
    values = section.pictures[number].spec["data"]["values"]
    return [(each["label"], each["value"]) for each in values]


def queue(topic: str, queue_id: int, messages: int) -> QueueRow:
    return QueueRow(topic, queue_id, False, 0, messages, messages, 9, AT, AT)


@pytest.mark.parametrize(
    ("part", "make"),
    [("queues", queues_section), ("queues", groups_section), ("index", index_section),
     ("fates", fates_section), ("disk", disk_section)],
)  # fmt: skip
def test_a_part_that_is_not_known_says_why_and_draws_nothing(part: str, make: Any) -> None:
    section = make(facts(unknown={part: "a file is damaged", "expired": "no disk"}))
    assert section.notes[-1] == "not known: a file is damaged"
    assert (section.pictures, section.tables) == ([], [])


def test_the_deepest_queues_come_first_and_thirty_are_drawn() -> None:
    rows = [queue("A", n, n) for n in range(31)] + [queue("B", 0, 30)]
    section = queues_section(facts(queues=rows))
    total = sum(range(31)) + 30
    assert section.words == [
        f"32 queues, with {total} messages that the log still has; the picture has the 30 largest."
    ]
    assert bars(section)[:3] == [("A / 30", 30), ("B / 0", 30), ("A / 29", 29)]
    assert len(bars(section)) == 30
    assert len(section.tables[0].rows) == 32
    assert queues_section(facts(queues=rows[:1])).pictures == []
    assert queues_section(facts(queues=[])).words == ["There is no queue."]


def test_a_group_s_lag_is_that_of_all_its_queues() -> None:
    rows = [GroupRow("one", "T", 0, 5, 9, 4), GroupRow("two", "T", 0, 9, 9, 0),
            GroupRow("one", "T", 1, 0, 7, 7), GroupRow("three", "T", 0, 0, 99, 99)]  # fmt: skip
    section = groups_section(facts(queues=[], groups=rows))
    assert section.words == ["3 groups, 2 of them with messages not yet consumed."]
    assert bars(section) == [("three", 99), ("one", 11), ("two", 0)]
    assert [row[-1] for row in section.tables[0].rows] == [99, 7, 4, 0]
    done = groups_section(facts(queues=[], groups=[rows[1], rows[1]._replace(group="x")]))
    assert (done.words[0][:10], done.pictures) == ("2 groups, ", [])


def index_file(name: str, entries: int, chains: dict[int, int], begin: int) -> IndexFileStats:
    header = IndexHeader(begin, begin + 9, 0, 0, 3, entries + 1)
    return IndexFileStats(f"/s/index/{name}", header, 7, 49, chains, max(chains, default=0))


def test_index_files_tell_how_full_they_are_and_how_long_a_look_up_is() -> None:
    files = [index_file("1", 9, {1: 3, 2: 2}, AT), index_file("2", 4, {1: 1, 4: 1}, AT + 99)]
    section = index_section(facts(index=files))
    assert section.words[0].startswith("2 files with 13 entries in 7 slots. ")
    assert section.words[0].endswith("the longest chain has 4.")
    assert bars(section) == [("1", 9), ("2", 4)]
    assert bars(section, 1) == [("1 entry", 4), ("2 to 3 entries", 2), ("4 to 7 entries", 1)]
    assert len(section.pictures) == 3
    empty = index_section(facts(index=[index_file("1", 9, {1: 9}, AT), index_file("2", 0, {}, 0)]))
    assert len(empty.pictures) == 1  # no times of an empty file, and one kind of chain


def test_no_index_file_is_told_from_none_that_can_be_read() -> None:
    assert index_section(facts(index=[])).words == ["There is no index file."]
    spoilt = facts(index=[])
    spoilt.note("index", ["/s/index/1: no header"])
    assert index_section(spoilt).words == ["There is none that can be read."]


def test_fates_are_drawn_where_there_are_several() -> None:
    none = FateSums({}, [], {}, [], AT)
    assert fates_section(facts(fates=none)).words == ["The log has none."]
    one = fates_section(facts(fates=none._replace(transactions={"pending": 1234})))
    assert one.words[1:] == ["Half messages: 1,234 pending."]
    assert one.pictures == []
    sums = none._replace(
        transactions={"pending": 3, "committed": 2, "abandoned": 1},
        delayed={("level", "waiting"): 5, ("timer", "delivered"): 4},
    )
    section = fates_section(facts(fates=sums))
    assert bars(section) == [("abandoned", 1), ("committed", 2), ("pending", 3)]
    assert bars(section, 1) == [("waiting", 5), ("delivered", 4)]
    assert section.tables[0].rows[-1] == ["delayed", "timer", "delivered", 4]
    open_half, open_delayed = section.tables[1:]
    assert open_half.cut == "0 of 4 rows are in this file"  # pending, abandoned
    assert open_delayed.cut == "0 of 5 rows are in this file"


def test_what_cleaning_frees_is_a_part_of_its_folder_and_not_more_than_it_has() -> None:
    segments = [FileToDelete("commitlog/0", 600, ""), FileToDelete("commitlog/1", 400, "")]
    expired = Expired(
        "/s", "5.3.3", "", 0, segments, [FileToDelete("index/1", 50, "")], kept_segments=2
    )
    disk = [DiskPart("commitlog/", 3, 1500), DiskPart("index/", 1, 40), DiskPart("config/", 2, 7)]
    section = disk_section(facts(disk=disk, expired=expired))
    assert section.words[0] == (
        "reput expire --any-hour would free 1,050 bytes: 2 segments, 1 file of queues and index."
    )
    assert section.words[1].startswith("1,547 bytes in 6 files, ")
    assert section.notes[0].startswith("cleaning leaves 2 expired segments, ")
    values = section.pictures[0].spec["data"]["values"]
    assert [(each["label"], each["part"], each["value"]) for each in values] == [
        ("commitlog/", "stays", 500), ("commitlog/", "cleaning frees it", 1000),
        ("index/", "stays", 0), ("index/", "cleaning frees it", 40), ("config/", "stays", 7),
    ]  # fmt: skip
    nothing = disk_section(facts(disk=disk[:1], expired=Expired("/s", "5.3.3", "", 0)))
    assert nothing.words[0] == "Nothing has expired that cleaning could free."
