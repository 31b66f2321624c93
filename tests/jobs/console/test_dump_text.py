"""Items of a dump as text: a heading where a table begins, and nothing that a terminal obeys."""

from typing import Any

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


def test_a_heading_stands_where_another_table_begins() -> None:
    heading, row = shown(RECORD)
    assert heading.split() == [
        "physicalOffset", "size", "storeTimestamp", "(UTC)", "topic/queue", "queueOffset",
        "transaction", "tagsCode", "keyHashes",
    ]  # fmt: skip
    assert row.split() == ["4096", "120", "2023-11-14T22:13:20.123Z", "T/3", "9", "-", "5,6"]
    zeros = {"kind": "zeros", "physicalOffset": 9, "bytes": 4}
    batch = {**ENTRY, "storeTimestamp": 0, "baseOffset": 0, "batchSize": 1, "compactedOffset": -1}
    lines = shown(ENTRY, ENTRY, zeros, ENTRY, batch, ENTRY)
    assert [line.split()[0] for line in lines] == [
        "position", "0", "0", "--", "0", "position", "0", "position", "0",
    ]  # fmt: skip
    assert [len(lines[n].split()) for n in (0, 5)] == [5, 10]  # (UTC) is a word of its own
    after = {**RECORD, "afterBreak": True, "doubts": ["an earlier time"]}
    lines = shown(RECORD, after, after)
    assert [line for line in lines if line.startswith("--")] == [
        "-- records after the break: live ones, unless a doubt is noted"
    ]
    assert lines.count("    doubt: an earlier time") == 2


def test_of_what_is_long_a_part_is_shown_and_the_rest_counted() -> None:
    for many, text in ((6, " 0,1,2,3,4,5"), (7, " 0,1,2,3,4,5 and 1 more")):
        assert shown({**RECORD, "keyHashes": list(range(many))})[1].endswith(text)
    slot = {"kind": "slot", "slot": 4, "at": 56, "newest": 9, "entries": 5, "chain": [9, 7]}
    assert shown(slot)[1].endswith(" 9 7 and 3 more")
    assert shown({**slot, "entries": 2})[1].endswith(" 9 7")
    lines = shown({**RECORD, "bodyHex": "00ff", "bodyShown": 2})
    assert lines[-1] == "    bodyHex (its first 2 bytes): 00ff"


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


def test_damage_and_old_bytes_behind_a_blank_are_lines_of_their_own() -> None:
    for item, line in [
        ({"physicalOffset": 7, "at": 1, "field": "magic", "value": -626843481},
         "DAMAGE at 7: magic DAA320A7: no"),
        ({"at": 1, "field": "totalSize", "value": -1}, "DAMAGE at 1: totalSize -1: no"),
        ({"at": 1, "field": "file", "value": None}, "DAMAGE at 1: file: no"),
    ]:  # fmt: skip
        assert shown({"kind": "damage", "reason": "no", **item}) == [line]
    for clean, more in ((True, ""), (False, ", old bytes behind it")):
        blank = {"kind": "blank", "physicalOffset": 92, "size": 28, "restIsZero": clean}
        assert shown(blank) == [f"-- end of the segment at 92: BLANK of 28 bytes{more}"]
