"""What a replication says it did."""

import json

import pytest

from reput.jobs.replicating.target import Replicated, behind_text

T0 = 1_700_000_000_000


def done(**more: object) -> Replicated:
    about = Replicated("/a", "/b", 0, 1_000_000, 5_000_000, 1, 2, T0, end_reason="zeros")
    for name, value in more.items():
        setattr(about, name, value)
    return about


def test_lines_say_what_was_copied_and_how_fast() -> None:
    assert done(seconds=0.5).text().splitlines() == [
        "copied /a to /b",
        "  log       1,000,000 to 5,000,000 (zeros)",
        "  new       1 record, 2 queue entries",
        "  time      0.5 s, 8 MB/s",
        "  last      stored 2023-11-14T22:13:20.000Z",
    ]


def test_a_dry_run_has_nothing_new_and_took_no_time() -> None:
    text = done(dry_run=True, last_timestamp=0).text()
    assert text == "would copy /a to /b\n  log       1,000,000 to 5,000,000 (zeros)"


def test_what_took_no_time_has_no_speed() -> None:
    assert "  time      0.0 s" in done().text().splitlines()


def test_what_is_odd_has_its_own_line() -> None:
    lines = done(behind=1200, reconnects=1, warnings=["w1", "w2"]).text().splitlines()
    assert lines[5:] == [
        "  behind    1,200 bytes", "  again     connected 1 time", "  warning   w1",
        "  warning   w2",
    ]  # fmt: skip


def test_its_json_has_every_field() -> None:
    told = json.loads(json.dumps(done(config=["topics.json"]).as_json()))
    assert (told["resumed_at"], told["end"], told["config"]) == (
        1_000_000,
        5_000_000,
        ["topics.json"],
    )
    assert (told["dry_run"], told["warnings"], told["behind"]) == (False, [], 0)


@pytest.mark.parametrize(
    ("behind", "last", "now", "text"),
    [
        (0, T0, T0 + 9000, "up to date"),
        (1, T0, T0 + 1999, "1 bytes behind, 1 s old"),
        (4096, T0, T0 + 3_600_000, "4,096 bytes behind, 3,600 s old"),
        (4096, T0, T0 - 5, "4,096 bytes behind, 0 s old"),  # the master's clock is ahead
        (4096, 0, T0, "4,096 bytes behind"),
    ],
)
def test_how_far_behind_is_bytes_and_the_age_of_the_last_record(
    behind: int, last: int, now: int, text: str
) -> None:
    assert behind_text(behind, last, now) == text
