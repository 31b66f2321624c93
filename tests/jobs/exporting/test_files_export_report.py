"""What an export says: for people, as JSON, and what its manifest keeps."""

from typing import Any

import pytest

from reput.jobs.exporting.files import ComparedExport, Exported
from reput.udfs.table.export import MessageSums


def exported(messages: int = 2500, kind: str = "parquet", **more: Any) -> Exported:
    sums = MessageSums(messages, 1, 2, 3)
    return Exported("/store", "/out", kind, "5.3.3", 4096, 123_456, {"bodies": True}, sums, **more)


def files(*lengths: int) -> list[dict[str, Any]]:
    return [{"path": f"{n}", "length": each} for n, each in enumerate(lengths)]


def test_people_are_told_in_four_lines() -> None:
    assert exported(files=files(1000, 234), seconds=1.25).text().splitlines() == [
        "exported /store -> /out",
        "  log       4,096 to 123,456",
        "  messages  2,500 in 2 files, 1,234 bytes",
        "  time      1.2 s",
    ]
    assert "  messages  1 in 1 file, 5 bytes\n" in exported(1, files=files(5)).text()


def test_the_files_of_a_table_are_not_counted() -> None:
    assert "  messages  2,500\n" in exported(kind="delta", files=files(5)).text()


@pytest.mark.parametrize(
    ("system", "kind", "line"),
    [
        (0, "parquet", None),
        (1, "parquet", "  system    1 message of system topics left out: --system-topics"),
        (None, "delta", "  system    not counted of system topics left out: --system-topics"),
        (
            2,
            "rocketmq",
            "  system    2 messages of system topics left out: `reput convert` takes them",
        ),
    ],
)
def test_messages_of_system_topics_that_were_left_out_are_told(
    system: int | None, kind: str, line: str | None
) -> None:
    said = exported(system=system, kind=kind).text().splitlines()[4:]
    assert said == ([] if line is None else [line])


def test_of_what_was_left_out_twenty_places_are_shown_and_all_warnings() -> None:
    notes = [f"note {n}" for n in range(25)]
    lines = exported(left_out=1234, notes=notes, warnings=["w1", "w2"]).text().splitlines()[4:]
    assert lines[0] == "  left out  at 1,234 places:"
    assert lines[1:21] == [f"    note {n}" for n in range(20)]
    assert lines[21:] == ["  warning   w1", "  warning   w2"]
    assert "left out" not in exported(notes=notes).text()


def test_a_manifest_keeps_nothing_that_differs_from_run_to_run() -> None:
    one = exported(files=files(5), cleaned=["/old"], seconds=1.0).manifest()
    other = exported(files=files(5), seconds=2.0).manifest()
    assert one == other
    assert one["format"].startswith("reput-export-")
    assert not one.keys() & {"seconds", "output", "cleaned"}
    assert (one["log_end"], one["files"], one["sums"]["messages"]) == (123_456, files(5), 2500)


def test_json_has_the_number_of_messages_too() -> None:
    whole = exported(cleaned=["/old"]).as_json()
    assert (whole["messages"], whole["output"], whole["cleaned"]) == (2500, "/out", ["/old"])


def test_a_comparison_is_the_same_only_without_a_difference() -> None:
    same = ComparedExport("/store", "/out", 1, [])
    assert (same.same, same.as_json()["same"]) == (True, True)
    assert same.text() == "/out: 1 message, as the log of /store has them"
    other = ComparedExport("/store", "/out", 1, ["a", "b"])
    assert (other.same, other.as_json()["same"]) == (False, False)
    assert other.text() == "/out: differs from the log of /store\n  a\n  b"
