"""How a difference and what was compared are said."""

import pytest

from reput.jobs.judging.report import MISSING, Difference, compared_text


@pytest.mark.parametrize(
    ("difference", "text"),
    [
        (Difference("q/0", 40, "size", 7, 0), "q/0: offset 40: size: is 7, should be 0"),
        (Difference("q/0", 0, "slot", 0, 7), "q/0: offset 0: slot: is 0, should be 7"),
        (Difference("q/0", 40, MISSING, None, None), "q/0: the file is missing"),
        (Difference("q/0", 40, "slot", None, 7), "q/0: slot"),
    ],
)
def test_a_value_of_0_is_a_value(difference: Difference, text: str) -> None:
    assert difference.text() == text


@pytest.mark.parametrize(
    ("files", "rows", "text"),
    [
        (0, [], "0 files"),
        (3, [], "3 files"),
        (0, ["9 entries"], "9 entries in RocksDB"),
        (3, ["9 entries", "2 keys"], "3 files, 9 entries, 2 keys in RocksDB"),
    ],
)
def test_no_files_are_told_of_where_rows_were_compared(
    files: int, rows: list[str], text: str
) -> None:
    assert compared_text(files, f"{files} files", rows) == text
