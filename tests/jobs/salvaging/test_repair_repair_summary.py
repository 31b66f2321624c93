"""What a person and a manifest are told of a repair."""

from typing import Any

import pytest

from reput.jobs.outputs.report import OutputFile
from reput.jobs.salvaging.repair import RepairSummary

DAMAGE = {"ranges": [], "range_count": 1, "bytes_lost": 9, "messages_missing": 2}


def summary(**more: Any) -> RepairSummary:
    return RepairSummary("s", "out", "5.3.3", 0, 900, DAMAGE, **more)


def test_the_manifest_tells_of_the_store_that_was_read_and_not_of_the_run() -> None:
    one, other = summary(), summary(seconds=7.5, releases="5.3.3 or 5.3.2")
    other.output = "elsewhere"
    assert one.manifest() == other.manifest()
    told = one.manifest()
    assert (told["format"], told["repaired"], "damage" in told) == (
        "reput-repair-1", DAMAGE, False,
    )  # fmt: skip


def test_programs_get_numbers_of_files() -> None:
    file = OutputFile("commitlog/0", 9, "00")
    told = summary(segments=[file, file], saved=[file]).as_json()
    assert (told["segments"], told["saved"], told["derived"]) == (2, 1, 0)


@pytest.mark.parametrize(
    ("more", "line"),
    [
        ({"fillers": 1, "filled": [{"many": 1}]},
         "  fillers   1 record, of which 1 keeps a lost message's position"),
        ({"fillers": 9, "filled": [{"many": 2}, {"many": 3}]},
         "  fillers   9 records, of which 5 keep a lost message's position"),
        ({"fillers": 2}, "  fillers   2 records, of which 0 keep a lost message's position"),
        ({"corrected": 1},
         "  kept      1 record whose checksum is wrong: the copy's is made anew"),
        ({"saved": [OutputFile("damaged/0", 1000, ""), OutputFile("damaged/1", 1, "")]},
         "  saved     1,001 damaged bytes in damaged/"),
        ({"restored": [{"field": "magic", "record": 7, "bits": ["bit 3"], "by": "its place"}]},
         "  put back  magic of the record at 7: bit 3; by its place"),
        ({"warnings": ["look"]}, "  warning   look"),
    ],
)  # fmt: skip
def test_only_what_was_done_has_a_line(more: dict[str, Any], line: str) -> None:
    plain = summary().text().splitlines()
    lines = summary(**more).text().splitlines()
    assert [each for each in lines if each not in plain] == [line]
    assert lines[-1] == "  next      start a broker on out"
