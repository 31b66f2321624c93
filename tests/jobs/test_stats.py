"""`reput stats`: puts counted from the log, by topic and day."""

from pathlib import Path

import pytest

from reput.jobs.stats import _utf8
from tests.jobs.listing import asked, only, put_store, rows
from tests.store_format.fate.logs import T0, SmallLog

HOUR = 3_600_000
FIXED = 91 + 1  # of a record with a topic of one letter and no properties


@pytest.fixture
def store(tmp_path: Path) -> str:
    """Records of 127, 128 and 255 bytes, and one of 256 an hour later."""
    log = SmallLog()
    for topic, size in (("T", 127), ("U", 128), ("T", 255)):
        log.put(topic, body=bytes(size - FIXED))
    log.now += HOUR
    log.put("T", body=bytes(256 - FIXED))
    return put_store(tmp_path, log)


def test_puts_are_counted_by_topic_and_day(store: str, capsys) -> None:
    found = rows(capsys, "stats", store)
    last = T0 + 3000 + HOUR
    assert only(found, "topic", "records", "messages", "bytes", "first", "last") == [
        ("T", 3, 3, 127 + 255 + 256, T0, last), ("U", 1, 1, 128, T0 + 1000, T0 + 1000)]  # fmt: skip
    assert found[0]["messagesPerSecond"] == pytest.approx(3 / (3 + HOUR / 1000))
    # The first three are of 22:13 in UTC, the last of 23:13.
    for zone, days in (("UTC", [4]), ("Europe/Paris", [3, 1]), ("-04:15", [4]), ("+0115", [3, 1])):
        found = rows(capsys, "stats", store, "--by", "day", "--tz", zone)
        assert [row["records"] for row in found] == days, zone
    assert found[0]["messagesPerSecond"] == 3 / 86400
    code, out, _ = asked(capsys, "stats", store, "--by", "day,topic", "--tz", "Europe/Paris")
    assert code == 0
    assert out[0].split()[:3] == ["day", "(Europe/Paris)", "topic"]
    assert [line.split()[:2] for line in out[1:]] == [
        ["2023-11-14T00:00:00.000+01:00", "T"], ["2023-11-14T00:00:00.000+01:00", "U"],
        ["2023-11-15T00:00:00.000+01:00", "T"]]  # fmt: skip


def test_half_a_surrogate_pair_is_no_parquet_text() -> None:
    assert (_utf8("T\ud800"), _utf8("T"), _utf8(7)) == ("T?", "T", 7)


@pytest.mark.parametrize("by", ["", "topics", "topic,topic", "topic,", "Topic"])
def test_what_is_no_way_to_count_is_refused(store: str, capsys, by: str) -> None:
    with pytest.raises(SystemExit) as ended:
        asked(capsys, "stats", store, "--by", by)
    assert ended.value.code == 2
    assert "expected some of topic, day, hour, group, size" in capsys.readouterr().err


def test_what_is_left_out_is_counted_and_what_is_lacking_is_in_the_exit_code(
    store: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = asked(capsys, "stats", store, "--limit", "1")
    assert (code, len(out)) == (0, 2)
    assert any("1 more: --limit 1 leaves them out" in line for line in err)
    (segment,) = (tmp_path / "store/commitlog").iterdir()
    with segment.open("r+b") as file:
        file.seek(127 + 4)  # the second record's magic number
        file.write(b"x")
    assert asked(capsys, "stats", store)[0] == 1
