"""Counts and times as a person reads them."""

from reput.jobs.outputs.report import counted, time_text


def test_plurals() -> None:
    texts = [counted(n, what) for n, what in ((1, "file"), (0, "file"), (7525, "index key"),
                                              (2, "entry"), (1, "queue entry"))]  # fmt: skip
    assert texts == ["1 file", "0 files", "7,525 index keys", "2 entries", "1 queue entry"]


def test_times_that_no_calendar_has_are_numbers() -> None:
    assert time_text(1_700_000_000_123) == "2023-11-14T22:13:20.123Z"
    assert time_text(-1) == "1969-12-31T23:59:59.999Z"
    assert time_text(1 << 62) == str(1 << 62)
