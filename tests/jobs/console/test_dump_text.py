"""Items of a dump as text: a heading where a table begins, and nothing that a terminal obeys."""

from typing import Any

import pytest

from reput.jobs.console.dump_text import Item, TextTable

RECORD: Item = {
    "kind": "record", "physicalOffset": 4096, "size": 120, "storeTimestamp": 1_700_000_000_123,
    "topic": "T", "queueId": 3, "queueOffset": 9, "transaction": "none", "tagsCode": None,
    "keyHashes": [5, 6],
}  # fmt: skip
ENTRY: Item = {"kind": "entry", "position": 0, "at": 0, "physicalOffset": 7, "size": 1,
               "tagsCode": -3}  # fmt: skip


def shown(*items: dict[str, Any]) -> list[str]:
    table = TextTable()
    return "".join(table.show(item) for item in items).splitlines()


def test_a_record_is_a_row_under_its_heading() -> None:
    heading, row = shown(RECORD)
    assert heading.split() == [
        "physicalOffset", "size", "storeTimestamp", "(UTC)", "topic/queue", "queueOffset",
        "transaction", "tagsCode", "keyHashes",
    ]  # fmt: skip
    assert row.split() == ["4096", "120", "2023-11-14T22:13:20.123Z", "T/3", "9", "-", "5,6"]


def test_a_heading_stands_again_only_where_another_table_begins() -> None:
    zeros = {"kind": "zeros", "physicalOffset": 9, "bytes": 4}
    batch = {**ENTRY, "storeTimestamp": 0, "baseOffset": 0, "batchSize": 1, "compactedOffset": -1}
    lines = shown(ENTRY, ENTRY, zeros, ENTRY, batch, ENTRY)
    assert [line.split()[0] for line in lines] == [
        "position", "0", "0", "--", "0", "position", "0", "position", "0",
    ]  # fmt: skip
    assert [len(lines[n].split()) for n in (0, 5)] == [5, 10]  # (UTC) is a word of its own


@pytest.mark.parametrize(("many", "text"), [(6, "0,1,2,3,4,5"), (7, "0,1,2,3,4,5 and 1 more")])
def test_of_many_key_hashes_six_are_shown(many: int, text: str) -> None:
    assert shown({**RECORD, "keyHashes": list(range(many))})[1].endswith(f" {text}")


def test_a_slot_tells_how_much_of_its_chain_is_left_out() -> None:
    slot = {"kind": "slot", "slot": 4, "at": 56, "newest": 9, "entries": 5, "chain": [9, 7]}
    assert shown(slot)[1].endswith(" 9 7 and 3 more")
    assert shown({**slot, "entries": 2})[1].endswith(" 9 7")


def test_records_after_a_break_are_announced_once() -> None:
    after = {**RECORD, "afterBreak": True, "doubts": ["an earlier time"]}
    lines = shown(RECORD, after, after)
    assert [line for line in lines if line.startswith("--")] == [
        "-- records after the break: live ones, unless a doubt is noted"
    ]
    assert lines.count("    doubt: an earlier time") == 2


def test_text_of_a_store_is_escaped_wherever_it_stands() -> None:
    hostile = "\x1b[2J\u202e"
    items = [
        {**RECORD, "topic": hostile, "properties": {hostile: hostile}, "body": hostile,
         "notProperties": [hostile]},
        {"kind": "row", "family": "default", "key": hostile},
        {"kind": "abort", "bytes": 9, "text": hostile},
        {"kind": "damage", "at": 0, "field": "text", "value": hostile, "reason": "x"},
    ]  # fmt: skip
    lines = shown(*items)
    assert all(line.isprintable() for line in lines)
    assert sum("\\x1b[2J\\u202e" in line for line in lines) == 7


@pytest.mark.parametrize(("item", "line"), [
    ({"physicalOffset": 7, "at": 1, "field": "magic", "value": -626843481, "reason": "no"},
     "DAMAGE at 7: magic DAA320A7: no"),
    ({"at": 1, "field": "totalSize", "value": -1, "reason": "no"},
     "DAMAGE at 1: totalSize -1: no"),
    ({"at": 1, "field": "file", "value": None, "reason": "no"}, "DAMAGE at 1: file: no"),
])  # fmt: skip
def test_a_magic_number_is_shown_by_its_digits(item: Item, line: str) -> None:
    assert shown({"kind": "damage", **item}) == [line]


@pytest.mark.parametrize(("clean", "more"), [(True, ""), (False, ", old bytes behind it")])
def test_old_bytes_behind_a_blank_are_said(clean: bool, more: str) -> None:
    blank = {"kind": "blank", "physicalOffset": 92, "size": 28, "restIsZero": clean}
    assert shown(blank) == [f"-- end of the segment at 92: BLANK of 28 bytes{more}"]


def test_a_body_that_was_cut_says_so() -> None:
    lines = shown({**RECORD, "bodyHex": "00ff", "bodyShown": 2})
    assert lines[-1] == "    bodyHex (its first 2 bytes): 00ff"
