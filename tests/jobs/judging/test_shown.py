"""A check for people: the picture of the log, how much is left out, and the next command."""

from contextlib import nullcontext
from typing import Any

import pytest

from reput.jobs import check as command
from reput.jobs.cli import main
from reput.jobs.judging.report import LEFT, TAIL_LOST, CheckReport, Difference
from reput.jobs.judging.shown import next_step, picture, rows, svg, text
from reput.store_format.log.segments import Finding

SIZE = 6400  # 100 bytes a cell
DIFFERS = Difference("index/1", 0, "x", 1, 2)
HOSTILE = '/data/<a>&"'


def a_range(start: int, length: int, kind: str = "damaged") -> dict[str, Any]:
    return {"physical_offset": start, "length": length, "kind": kind, "field": "magic",
            "reason": "wrong", "file": None, "value": None, "missing": [], "sureness": "certain",
            "witnesses": [], "against": [], "follows": "record"}  # fmt: skip


def report(*ranges: dict[str, Any], segments: int = 1, **more: Any) -> CheckReport:
    damage = {"ranges": list(ranges), "range_count": len(ranges), "bytes_lost": 1, "causes": [],
              "messages_missing": 0, "missing": [], "missing_unlisted": 0}  # fmt: skip
    starts = [SIZE * n for n in range(segments)]
    given = {"store": "STORE", "derived_files": 1, "log_end": starts[-1] + SIZE,
             "segments": starts, **more}  # fmt: skip
    return CheckReport(rocketmq="5.3.3", log_start=0, segment_bytes=SIZE, messages=9,
                       damage=damage, **given)  # fmt: skip


def cells(found: CheckReport) -> str:
    (line,) = picture(found)
    return line.partition("[")[2].rstrip("]")


def test_a_cell_is_damaged_where_any_byte_of_it_is_and_shows_the_worst_kind() -> None:
    for start, length, signs in [
        (0, 1, "!#"), (0, 100, "!#"), (0, 101, "!!#"), (99, 1, "!#"), (99, 2, "!!#"),
        (100, 1, "#!#"),
    ]:  # fmt: skip
        assert cells(report(a_range(start, length))) == signs.ljust(64, "#")
    kinds = ["content", "stale", "damaged", "missing"]
    ranges = [a_range(100 * n, 100, kind) for n in range(4) for kind in kinds[: n + 1]]
    assert cells(report(*ranges, log_end=501)) == "cs!-##".ljust(64, ".")


def test_stretches_of_sound_segments_are_counted_and_a_missing_one_has_a_row() -> None:
    found = report(a_range(5 * SIZE, 2 * SIZE), segments=10)
    assert [(row.start // SIZE, bool(row.cells), row.skipped) for row in rows(found)] == [
        (0, True, 0), (5, True, 4), (6, True, 0), (9, True, 2),
    ]  # fmt: skip
    found = report(a_range(SIZE, SIZE, "missing"), segments=3)
    found.segments.remove(SIZE)
    lines = list(picture(found))
    assert len(lines) == 3
    assert lines[1] == f"  {SIZE:020d} [{'-' * 64}]"
    found = report(segments=9)
    del found.segments[2:8]
    assert list(picture(found))[1] == "  ... 1 segments without damage"


def test_segments_behind_the_last_row_are_not_called_sound() -> None:
    found = report(*(a_range(n * SIZE, 9) for n in range(60)), segments=60)
    assert list(picture(found))[-1] == "  ... 20 more segments"
    assert ">... 20 more segments</text>" in svg(found)
    assert "without damage" not in svg(found)


@pytest.mark.parametrize(("segments", "rows_drawn"), [(1, 1), (5, 5), (90, 40)])
def test_what_lies_behind_the_last_listed_range_is_not_called_sound(segments, rows_drawn) -> None:
    found = report(a_range(100, 100), segments=segments)
    found.damage["range_count"] = 2
    drawn = [line for line in picture(found) if "[" in line]
    assert len(drawn) == rows_drawn
    assert drawn[0].endswith("[" + "#!".ljust(64, "?") + "]")
    assert all(line.endswith("?" * 64 + "]") for line in drawn[1:])
    assert "without damage" not in "".join(picture(found))
    assert f"<title>unlisted: 200 to {segments * SIZE}</title>" in svg(found)


def test_the_image_has_the_same_ranges_and_no_markup_of_the_store_s_name() -> None:
    found = report(a_range(0, 640), log_end=3200)
    found.store = HOSTILE
    image = svg(found)
    assert "/data/&lt;a&gt;&amp;&quot;" in image
    assert '<rect x="190" y="30" width="640" height="18" fill="#e5e5e5"/>' in image
    assert '<rect x="190" y="30" width="320" height="18" fill="#3b6ea5"/>' in image
    assert '<rect x="190" y="30" width="64" height="18" fill="#c0392b"><title>' in image


TORN = {**a_range(0, 9), "follows": "nothing live"}
GONE = Finding("STORE/checkpoint", f"knows more: {TAIL_LOST}")
KEPT = Finding("STORE/kvStore", f"knows more: {TAIL_LOST}{LEFT}")


@pytest.mark.parametrize(("found", "command"), [
    (report(), ""),
    (report(derived_files=None), "reput rebuild STORE --output DIR, then reput install"),
    (report(differences=[DIFFERS]), "reput rebuild STORE --output DIR, then reput install"),
    (report(differences=[DIFFERS], store="s3://b/s"), "DIR, then put what is in DIR in the"),
    (report(a_range(0, 9), differences=[DIFFERS]), "reput repair STORE --output DIR "),
    (report(findings=[Finding("commitlog/x", "odd")], differences=[DIFFERS]), ""),
    (report(a_range(0, 9), releases="5.3.3, assumed"), "--output DIR --rocketmq VERSION"),
    (report(a_range(0, 9), of_group=True), "reput rebuild STORE --output DIR --on-damage"),
    (report(a_range(0, 9), looks_like="5.4.0"), ""),
    (report(crashed=True), "reput recover STORE --dry-run   (or start the broker)"),
    (report(crashed=True, lock_unknown=True), "once no broker runs, reput recover STORE "),
    (report(crashed=True, releases="5.3.3, assumed"), "--dry-run --rocketmq VERSION "),
    (report(crashed=True, of_group=True), "start the broker: it recovers"),
    (report(crashed=True, in_rocksdb=["rows"]), "start the broker: it recovers"),
    (report(TORN, crashed=True), "reput recover STORE "),
    (report(a_range(0, 9), crashed=True), "reput repair STORE "),
    (report(findings=[Finding("STORE/timerlog", "has nothing")]), "reput rebuild STORE "),
    (report(findings=[Finding("STORE/config/timercheck", "is missing")]), "install DIR STORE"),
    (
        report(findings=[Finding("STORE/compaction/x", "lacks it (reput recover)")]),
        "reput recover STORE --dry-run",
    ),
    (report(findings=[GONE]), "on a slave or in a backup; else reput recover STORE "),
    (report(findings=[KEPT]), "on a slave or in a backup; else start the broker"),
    (report(findings=[KEPT, GONE]), "in a backup; else reput recover STORE "),
    (report(findings=[KEPT], crashed=True), "in a backup; else reput recover STORE "),
    (report(findings=[GONE], in_rocksdb=["rows"]), "or let the broker cut"),
    (
        report(findings=[Finding("x", "queueOffset 9 is ...: 1 kept from position 6")]),
        "reput repair STORE --output DIR --put-back ",
    ),
    (report(findings=[GONE], of_group=True), "another member of the group"),
])  # fmt: skip
def test_the_next_command_mends_what_was_found(found: CheckReport, command: str) -> None:
    step = next_step(found)
    assert command in step
    assert bool(step) == bool(command)


def test_of_each_kind_two_lines_are_shown_and_the_others_counted() -> None:
    found = report(*(a_range(100 * n, 9) for n in range(5)), differences=[DIFFERS] * 3)
    gaps = [{"topic": "T", "queue_id": n, "first": 7, "count": 3 - n} for n in range(3)]
    found.damage["missing"] = gaps
    found.damage["missing_unlisted"] = 1000
    short, whole = text(found).splitlines(), text(found, whole=True).splitlines()
    assert sum(line.startswith("  range ") for line in short) == 2
    assert "  ... and 3 more (-v shows more, --json has them)" in short
    assert sum(line.startswith("  range ") for line in whole) == 5
    assert [line for line in short if line.startswith("  missing ")] == [
        "  missing   topic 'T', queue 0: queueOffset 7 to 9",
        "  missing   topic 'T', queue 1: queueOffset 7 to 8",
    ]
    assert "  missing   topic 'T', queue 2: queueOffset 7" in whole
    assert "  ... and 1,001 more (-v shows more, --json has them)" in short


def test_the_next_command_has_the_options_that_were_given() -> None:
    given = " --rocketmq 5.3.3 --set maxIndexNum=90"
    step = next_step(report(a_range(0, 9), releases="5.3.3, assumed"), given)
    assert step.startswith(f"reput repair STORE --output DIR{given} ")
    assert "VERSION" not in step
    assert given in text(report(a_range(0, 9)), given=given)
    todo = Finding("commitlog/x", "odd", todo="move commitlog/x away")
    assert next_step(report(a_range(0, 9), findings=[todo])) == "move commitlog/x away"


def test_what_looks_like_another_release_has_exit_code_2(monkeypatch, tmp_path) -> None:
    (tmp_path / "commitlog").mkdir()
    monkeypatch.setattr(command.options, "engine_for", lambda *_: nullcontext())
    monkeypatch.setattr(command.options, "asks_store", lambda *_: None)
    for looks_like, code in (("5.4.0", 2), ("", 0)):
        monkeypatch.setattr(command, "check", lambda *_, it=looks_like: report(looks_like=it))
        assert main(["check", str(tmp_path)]) == code
