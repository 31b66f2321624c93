"""Bulk appends make what single ones make; copies keep what a message is."""

from pathlib import Path

import pyarrow as pa
import pytest

from reput.store_format.message import refusals as errors
from reput.udfs.table.message_rows import BadRow, append_arrow, message_from
from tests.broker.writer.appending import run_append
from tests.broker.writer.stores import no_counter, open_writer, stored_records

ROWS = [{"topic": ["A", "B", "%RETRY%" + "g" * 200][number % 3], "queue_id": number % 4,
         "body": bytes([number % 256]) * (number * 7 % 400), "tags": [None, "t", "ünï"][number % 3],
         "keys": [None, "k1 k2", f"k{number}", ""][number % 4],
         "properties": None if number % 5 else [("p", "v"), ("q", f"{number}")],
         "flag": number} for number in range(200)]  # fmt: skip
SCHEMA = pa.schema([
    ("topic", pa.string()), ("queue_id", pa.int64()), ("body", pa.binary()), ("tags", pa.string()),
    ("keys", pa.string()), ("properties", pa.map_(pa.string(), pa.string())),
    ("flag", pa.int32())])  # fmt: skip


@pytest.mark.parametrize(
    ("crc", "release"), [("true", "5.3.3"), ("false", "5.3.3"), ("false", "5.1.4")])  # fmt: skip
@pytest.mark.parametrize("host", ["127.0.0.1:10911", "[::1]:10911"])
def test_a_table_makes_the_records_that_single_appends_make(tmp_path, crc, release, host) -> None:
    named = {"enabledAppendPropCRC": crc, "host": host, "mappedFileSizeCommitLog": 16384}
    named["release"] = release
    roots = tmp_path / "bulk", tmp_path / "single"
    table = pa.Table.from_pylist(ROWS, SCHEMA)
    with open_writer(roots[0], **named) as writer:
        result = append_arrow(writer, table)
        assert result.messages == len(ROWS)
        fixed = writer.encoder.unique_ids.fixed
    with open_writer(roots[1], **named) as writer:
        writer.encoder.unique_ids._prefix = fixed.hex().upper()
        for row in table.to_pylist():
            writer.append(message_from(row))
    one, other = (list(stored_records(root / "commitlog")) for root in roots)
    # the last four digits of a UNIQ_KEY count the ids made; bulk takes one for every row
    blank = [[r._replace(properties=no_counter(r.properties)) for r in rs] for rs in (one, other)]
    assert blank[0] == blank[1]


@pytest.mark.parametrize(("column", "value", "error"), [
    ("topic", "a/b", errors.TopicCharacters), ("body", bytes(5000), errors.BodyTooLarge),
    ("tags", "a\x01", errors.SeparatorInProperty), ("keys", "a\x02", errors.SeparatorInProperty),
    ("keys", "k" * 32768, errors.PropertiesTooLarge),
    ("properties", [("p", "\x01")], errors.SeparatorInProperty), ("topic", None, BadRow),
    ("queue_id", 1 << 40, BadRow), ("queue_id", -1, errors.FieldRange)])  # fmt: skip
def test_a_bad_row_is_refused_before_anything_is_written(tmp_path, column, value, error) -> None:
    rows = [dict(row) for row in ROWS]
    rows[150][column] = value
    with open_writer(tmp_path, maxMessageSize=4000, mappedFileSizeCommitLog=1 << 17) as writer:
        with pytest.raises(error, match=r"^row 151: ") as raised:
            append_arrow(writer, pa.Table.from_pylist(rows, SCHEMA), first_row=1)
        assert raised.value.row == 150
        assert writer.log.end == 0


@pytest.mark.parametrize(("line", "reason"), [
    ('{"topic":"T"}', "one of body and body_base64"), ("[" * 100_000, "recursion"),
    ("\ufffe", "line 2"), ('{"topic":"T","body":"","queue_id":1e400}', "of a wrong type"),
    ('{"topic":"T","body":"","properties":{"DELAY":"soon"}}', "DELAY is not a number"),
    ('{"topic":"T","body":"","properties":{"TIMER_DELAY_SEC":"x"}}', "TIMER_DELAY_SEC"),
    ('{"topic":"a/b","body":""}', "TopicCharacters, MESSAGE_ILLEGAL")])  # fmt: skip
def test_a_bad_line_is_named_and_those_before_it_are_appended(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], line: str, reason: str
) -> None:
    source = tmp_path / "m.jsonl"
    source.write_text('{"topic":"T","body":"x"}\n' + line + "\n")
    sizes = ["--set", "maxHashSlotNum=16", "--set", "maxIndexNum=20"]
    store = str(tmp_path / "store")
    assert run_append([store, "--from", str(source), *sizes]) == 2
    error = capsys.readouterr().err
    assert reason in error
    assert "line 2: " in error
    assert "1 message was appended: --skip 1 goes on" in error
