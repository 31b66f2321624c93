"""What people are told of a recovery: whether it is needed, and its steps in their order."""

from typing import Any

import pytest

from reput.jobs.in_place.recover import Recovered


def about(**more: Any) -> Recovered:
    return Recovered("s", "5.3.3", 1000, "zeros", **more)


def test_a_store_that_is_sound_needs_nothing() -> None:
    for more in ({}, {"warnings": ["w"], "notes": ["n"], "expired": ["e"], "done": True}):
        assert not about(**more).needed
        said = ["s was stopped cleanly and is undamaged: nothing to do"]
        said += ["  warning   w"] if more else []
        assert about(**more).text().splitlines() == said
        assert about(**more).steps() == ""


@pytest.mark.parametrize(
    ("more", "steps"),
    [
        ({"crashed": True}, "remove abort"),
        ({"cut_bytes": 1}, "cut 1 byte after 1,000"),
        ({"cut_bytes": 1234}, "cut 1,234 bytes after 1,000"),
        ({"written": ["a"]}, "write 1 derived file"),
        ({"removed": ["a", "b"]}, "remove 2 derived files"),
        ({"checkpoint": True}, "write checkpoint"),
        ({"checkpoint": True, "crashed": True, "removed": ["a"], "written": ["b"], "cut_bytes": 2},
         "cut 2 bytes after 1,000, write 1 derived file, remove 1 derived file, "
         "write checkpoint, remove abort"),
    ],
)  # fmt: skip
def test_each_change_is_a_step(more: dict[str, Any], steps: str) -> None:
    assert about(**more).needed
    assert about(**more).steps() == steps
    assert f"  change    {steps}" in about(**more).text().splitlines()


def test_the_text_says_where_the_log_ends_and_where_what_is_cut_is_kept() -> None:
    told = about(cut_bytes=9, cut_kept="s/reput-cut", warnings=["look"], releases="5.3.1 to 5.3.3")
    assert told.text().splitlines() == [
        "would recover s as RocketMQ 5.3.1 to 5.3.3",
        "  log       ends at 1,000 (zeros)",
        "  change    cut 9 bytes after 1,000",
        "  kept      what is cut, in s/reput-cut",
        "  warning   look",
        "  next      the same without --dry-run does it",
    ]
    done = about(crashed=True, done=True).text().splitlines()
    assert done[0] == "recovered s as RocketMQ 5.3.3"
    assert len(done) == 3


def test_files_and_notes_are_only_for_those_who_ask() -> None:
    told = about(written=["a"], removed=["b"], notes=["c"])
    assert told.details() == ["  written   a", "  removed   b", "  note      c"]
    assert not {"a", "b", "c"} & set(told.text().split())
