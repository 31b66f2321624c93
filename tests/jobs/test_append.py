"""`reput append` says exactly how many messages are in the log, however it ends, and goes on."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as some

from reput.jobs import append as command
from reput.jobs import cli
from reput.jobs.exporting.append import Lines
from reput.store_format.message.refusals import Refused
from reput.store_format.release.profiles import RELEASES
from tests.broker.writer.appending import SIZES, bodies, run_append
from tests.broker.writer.stores import no_counter, open_writer, stored_records
from tests.built import Built
from tests.damaged import damaged
from tests.jobs.sources.reading import write
from tests.logs.encoder import Message
from tests.processes import ROOT


def rows(many: int, **more: Any) -> list[dict[str, Any]]:
    return [{"topic": "T", "body": b"%d" % n, "queue_id": n % 3, **more} for n in range(many)]


@pytest.mark.parametrize(
    ("more", "column", "value", "appended"),
    [
        ({}, "queue_id", -1, 80),  # in bulk: the batch of the row is refused whole
        ({"flag": 1}, "topic", "a/b", 80),
        ({"delay_level": 0, "reconsume_times": 1}, "queue_id", -1, 97),  # row by row
        ({"store_host": "1.2.3.4:5"}, "topic", None, 97),
        ({"properties": {"a": "b"}}, "properties", {"a": "\x01"}, 80),
        ({"properties": {"a": "b", "DELAY": "0"}}, "properties", {"DELAY": "x"}, 97),
        ({"properties": {"a": "b", "TIMER_DELAY_MS": None}}, "properties",
         {"TIMER_DELAY_MS": "x"}, 97),
        ({"keys": ["a", "b"]}, "keys", [None], 80),
        ({"born_timestamp": 5}, "born_timestamp", -5, 200),  # nothing is wrong with it
    ],
)  # fmt: skip
@pytest.mark.parametrize("suffix", ["parquet", "arrow"])
def test_a_refused_row_is_named_with_how_many_were_appended(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch,
    suffix: str, more: dict[str, Any], column: str, value: object, appended: int,
) -> None:  # fmt: skip
    monkeypatch.setattr("reput.jobs.exporting.append._BATCH_ROWS", 40)
    monkeypatch.setattr("reput.jobs.console.progress._LINE_SECONDS", 3600)  # no line in between
    bad = rows(200, **more)
    bad[97] = {**bad[97], column: value}
    table = pa.Table.from_pylist(bad)
    source, store = tmp_path / f"m.{suffix}", tmp_path / "store"
    if suffix == "parquet":
        pq.write_table(table, source)
    else:
        with pa.OSFile(str(source), "wb") as sink, pa.ipc.new_file(sink, table.schema) as out:
            out.write_table(table, max_chunksize=40)
    words = [str(store), "--from", str(source), *SIZES]
    tried = run_append([*words, "--dry-run"]), capsys.readouterr(), store.exists()
    code = run_append(words)
    error = capsys.readouterr().err
    assert bodies(store) == list(range(appended))
    assert (tried[0], tried[2]) == (code or 1, False)
    assert f"would append {appended} messages" in tried[1].out
    assert error.partition(";")[0] == tried[1].err.rstrip("\n") or not code
    if appended == 200:
        assert code == 0
        return
    assert code == 2
    assert "row 98: " in error
    assert f"; {appended} messages were appended: --skip {appended} goes on" in error
    # mended, and gone on with
    bad[97] = rows(200, **more)[97]
    pq.write_table(pa.Table.from_pylist(bad, table.schema), tmp_path / "mended.parquet")
    words = [str(store), "--from", str(tmp_path / "mended.parquet"), "--json", *SIZES]
    assert run_append([*words, "--skip", str(appended)]) == 0
    assert bodies(store) == list(range(200))
    answer = json.loads(capsys.readouterr().out)
    assert (answer["messages"], answer["next_skip"]) == (200 - appended, 200)


def test_entries_of_a_lost_end_are_cut_off_and_the_exit_code_says_so(tmp_path, capsys) -> None:
    source, store = tmp_path / "m.jsonl", tmp_path / "store"
    source.write_text('{"topic":"T","body":"b"}\n' * 3)
    words = [str(store), "--from", str(source), *SIZES]
    assert run_append(words) == 0
    log = store / "commitlog" / f"{0:020d}"
    *_, last = (each.physical_offset for each in stored_records(log.parent))
    log.write_bytes(log.read_bytes()[:last].ljust(log.stat().st_size, b"\0"))
    (store / "abort").touch()
    assert run_append(words) == 1
    assert "1 queue entry" in "".join(capsys.readouterr())


def test_of_a_new_store_the_release_is_said(tmp_path: Path, capsys) -> None:
    source = tmp_path / "m.jsonl"
    source.write_text('{"topic":"T","body":"b"}\n')
    words = [str(tmp_path / "store"), "--from", str(source), *SIZES]
    newest = f"  new       as RocketMQ {RELEASES[-1]} would: the newest, as the store is new; "
    assert cli.main(["append", "--yes", *words]) == 0
    assert newest + "--rocketmq names another\n" in capsys.readouterr().out
    assert cli.main(["append", "--yes", *words]) == 0  # it is not new any more
    assert "new" not in capsys.readouterr().out.replace(str(tmp_path), "")


@pytest.mark.parametrize(("line", "said"), [
    (b'{"nope": 1}', "line 2: unknown field 'nope'"), (b"[1]", "line 2: expected a JSON object"),
    (b"{", "line 2: "), (b'{"topic": "a/b", "body": ""}', "line 2: topic 'a/b'"),
    (b'{"topic": "T", "body": "' + b"x" * 2001 + b'"}', "line 2: a body of 2001 bytes"),
    (b'{"topic": "Batch", "body": ""}', "line 2: topic 'Batch'"),
    (b'{"topic": "T", "body": "", "born_host": "x"}', "line 2: "),
    (b" " * 9000 + b"{}", "line 2: over 6,012 bytes")])  # fmt: skip
def test_a_dry_run_refuses_what_the_run_does(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch,
    line: bytes, said: str) -> None:  # fmt: skip
    monkeypatch.setattr("reput.jobs.exporting.append._BESIDE_BODY", 2)
    monkeypatch.setattr("reput.jobs.exporting.append._BLOCK_BYTES", 3000)
    store, source = tmp_path / "store", tmp_path / "m.jsonl"
    (store / "config").mkdir(parents=True)
    batch = {"Batch": {"topicName": "Batch", "attributes": {"queue.type": "BatchCQ"}}}
    (store / "config/topics.json").write_text(json.dumps({"topicConfigTable": batch}))
    good = b'{"topic": "T", "body": "0"}\n'
    source.write_bytes(good + line + b"\n" + good)
    words = [str(store), "--from", str(source), *SIZES, "--set", "maxMessageSize=1000"]
    if b"xx" in line:
        words[-1] = "maxMessageSize=2000"
    errors = []
    for more in (["--dry-run"], []):
        assert run_append([*words, *more]) == 2
        errors.append(capsys.readouterr().err.partition(";")[0].strip())
    assert errors[0] == errors[1]
    assert f"{source}: {said}" in errors[0]
    assert bodies(store) == [0]


def test_skip_counts_messages_and_not_blank_lines(tmp_path: Path) -> None:
    source = tmp_path / "m.jsonl"
    line = '{"topic":"T","body":"%d"}\n'
    source.write_text("\n\n" + line % 0 + "\n" + line % 1 + line % 2)
    store = tmp_path / "store"
    assert run_append([str(store), "--from", str(source), "--skip", "1", *SIZES]) == 0
    assert bodies(store) == [1, 2]
    assert run_append([str(store), "--from", str(source), "--skip", "9", *SIZES]) == 0
    other = tmp_path / "other"
    assert run_append([str(other), "--from-store", str(store), "--skip", "1", *SIZES]) == 0
    assert bodies(other) == [2]


def test_a_store_with_retries_of_pop_is_copied_whole(tmp_path: Path) -> None:
    """A broker with enableRetryTopicV2 writes topics that no producer may name."""
    made = [Message(topic, body=b"%d" % n) for n, topic in enumerate(("T", "%RETRY%g+T", "T"))]
    store = write(damaged(made).log, tmp_path / "store")
    assert run_append([str(tmp_path / "to"), "--from-store", str(store), *SIZES]) == 0
    assert bodies(tmp_path / "to") == [0, 1, 2]


@pytest.mark.parametrize("more", [{}, {"reconsume_times": 1}])
def test_a_signal_within_a_batch_ends_it_between_two_writes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch,
    more: dict[str, Any]) -> None:  # fmt: skip
    monkeypatch.setattr("reput.broker.writer.bulk.CHUNK_BYTES", 4096)
    pq.write_table(pa.Table.from_pylist(rows(500, **more)), tmp_path / "m.parquet")
    appended = command.append_arrow

    def signalled(*given: Any) -> Any:
        signal.raise_signal(signal.SIGTERM)
        return appended(*given)

    monkeypatch.setattr(command, "append_arrow", signalled)
    store = tmp_path / "store"
    assert run_append([str(store), "--from", str(tmp_path / "m.parquet"), *SIZES]) == 143
    found = bodies(store)
    assert 0 < len(found) < 100
    said = capsys.readouterr()
    were = "message was" if len(found) == 1 else "messages were"
    assert f"stopped by SIGTERM; {len(found)} {were} appended: --skip" in said.err
    assert not (store / "abort").exists()
    assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_while_it_waits_for_input_is_answered_at_once(tmp_path, number) -> None:
    store = tmp_path / "store"
    words = [
        sys.executable, "-m", "reput", "append", str(store), "--from", "-", "--rocketmq", "5.3.3",
    ]  # fmt: skip
    words += SIZES
    with subprocess.Popen(
        words, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        text=True, env={**os.environ, "PYTHONUNBUFFERED": "1"}) as running:  # fmt: skip
        assert running.stdin
        running.stdin.write("".join(f'{{"topic":"T","body":"{n}"}}\n' for n in range(50)))
        running.stdin.flush()
        end = time.monotonic() + 120
        while not (store / "commitlog").exists() or len(bodies(store)) < 50:
            assert time.monotonic() < end
            assert running.poll() is None
            time.sleep(0.05)
        running.send_signal(number)
        out, error = running.communicate(timeout=60)
    assert running.returncode == 128 + number
    assert error.splitlines()[-1] == (
        f"reput: error: stopped by {number.name}; 50 messages were appended: "
        "--skip 50 goes on after them"
    )
    assert "50 messages appended" in out
    assert not (store / "abort").exists()


@pytest.mark.parametrize("step", ["flush", "close"])
def test_a_disk_that_fails_at_the_end_is_reported_with_how_far_it_came(
    step: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """All is in the log by then: whoever begins again without --skip has it twice."""
    (tmp_path / "m.jsonl").write_text('{"topic": "T", "body": "b"}\n' * 7)
    with monkeypatch.context() as patch:
        done = getattr(command.CommitLogWriter, step)

        def full(self: Any) -> None:
            done(self)
            raise OSError(28, "No space left on device", str(tmp_path))

        patch.setattr(command.CommitLogWriter, step, full)
        words = [
            "append", "--yes", str(tmp_path / "s"), "--from", str(tmp_path / "m.jsonl"), *SIZES,
        ]  # fmt: skip
        assert cli.main([*words, "--rocketmq", "5.3.3"]) == 3
    assert "7 messages were appended: --skip 7 goes on after them" in capsys.readouterr().err


GOOD = {
    "queue_id": ["0", "3"], "tags": ['"x"', "null"], "keys": ['"k"', '["k","l"]', "[]"],
    "properties": ['{"a":"1"}', '{"AaAa":"1","c":"2"}', '{"BBBB":"1","AaAa":"2"}', "{}", "null"],
    "flag": ["1"], "wait": ["true"], "born_timestamp": ["5", "0"], "delay_level": ["0", "2"],
    "reconsume_times": ["1"], "unique_key": ['"u"'], "born_host": ['"1.2.3.4:5"'],
}  # fmt: skip
# what Arrow, Python's json or RocketMQ refuses, or takes for something else
ODD = [
    '""', '" "', '"2026-01-31"', r'"\u00e9"', r'"\ud83d\ude00"', r'"\u0000"', r'"\u0001"',
    r'"\ud800"', r'"\udc00x"', r'"a\n"', '"a\tb"', r'"\x"', '"\U0001f600"', f'"{"x" * 300}"',
    "null", "true", "0", "-0", "-1", "1.0", "1e2", "01", "NaN", "2147483648", f"{1 << 64}", "[]",
    "{}", "[null]", '["a"]', '[["a"]]', "[1]", '["a",1]', '["2026-01-31"]', '{"a":null}',
    '{"a":1}', '{"a":"1","a":"2"}', '{"":"x"}', '{"TAGS":"x"}', '{"DELAY":"1"}', '{"a":{"b":"c"}}',
    r'{"a":"\u0002"}', r'{"\ud800":"a"}', '"AP8="', '"A"',
]  # fmt: skip
PAIR = some.sampled_from([(name, value) for name, values in GOOD.items() for value in values])
NAMES = [*GOOD, "topic", "body", "body_base64", "Tags", "physicalOffset"]
ODD_PAIR = some.tuples(some.sampled_from(NAMES), some.sampled_from(ODD))


def an_object(good: list[tuple[str, str]], odd: list[tuple[str, str]], without: str) -> bytes:
    pairs = [("topic", '"T"'), ("body", '"b"'), *good, *odd]
    return b"{%b}" % ",".join(f'"{n}":{v}' for n, v in pairs if n != without).encode()


MANY_GOOD = some.builds(an_object, some.lists(PAIR, max_size=3), some.just([]), some.just(""))
LINE = MANY_GOOD | some.builds(
    an_object, some.lists(PAIR, max_size=2), some.lists(ODD_PAIR, min_size=1, max_size=1),
    some.sampled_from(["", "body"]),
) | some.sampled_from(
    [b"", b" \t", b"\x0c", b"{}", b"{} {}", b"[1]", b"x", b"null", b'{"topic":"T","body":"b"}{}',
     b'{"topic":"T","body":"\xff"}', b'{"topic":"T","body":"\xed\xa0\x80"}', b'\xef\xbb\xbf{}',
     b'{"topic":"T","body":"b"} ', b'{"topic":"T","body":"b"}\r', b'{"topic":', b'"T","body":"b"}']
)  # fmt: skip


def appended_lines(root: Path, blocks: list[list[bytes]]) -> tuple[str, list[Any]]:
    """The refusal, and what was appended."""
    source, number = [], 1
    for block in blocks:
        source.append(Lines(number, b"\n".join(block) + b"\n"))
        number += len(block)
    counted, said = command.Counted(), ""
    with open_writer(root, mappedFileSizeCommitLog=1 << 16) as writer:
        ids = writer.encoder.unique_ids
        ids.fixed = bytes(len(ids.fixed))
        ids._prefix = ids.fixed.hex().upper()
        try:
            command._append_all(writer, iter(source), counted)
        except Refused as error:
            said = f"{type(error).__name__} {error}"
    records = list(stored_records(root / "commitlog"))
    assert counted.messages == len(records)
    return said, [r._replace(properties=no_counter(r.properties)) for r in records]


def test_lines_of_windows_and_blank_lines_are_read_by_arrow() -> None:
    raw = b'\r\n{"topic":"T","body":"b"}\r\n\n\n{"topic":"U","body":"c\\r\\n"}'
    table = command.JsonRows(16).table(raw)
    assert table is not None
    assert table.to_pylist() == [{"topic": "T", "body": "b"}, {"topic": "U", "body": "c\r\n"}]


@settings(max_examples=25)
@given(blocks=some.lists(some.lists(LINE, min_size=1, max_size=4), min_size=1, max_size=3))
@example(blocks=[[b'{"topic":"T","body":"b","properties":{"AaAa":"1","BBBB":"2"}}',
                  b'{"topic":"T","body":"b","properties":{"BBBB":"1","AaAa":"2"}}']])  # fmt: skip
@example(blocks=[[b'{"topic":"T","body":"b","delay_level":2}', b'{"topic":"a/b","body":"b"}']])
@example(blocks=[[b'{"topic":"T","body":"b"}\r', b"\r", b"", b'{"topic":"a/b","body":"b"}\r']])
def test_lines_read_by_arrow_are_those_read_one_by_one(blocks, tmp_path_factory) -> None:
    root = tmp_path_factory.mktemp("lines")
    with pytest.MonkeyPatch.context() as patch:
        found = appended_lines(root / "arrow", blocks)
        patch.setattr(command.JsonRows, "table", lambda *_: None)
        assert found == appended_lines(root / "python", blocks)


@pytest.mark.parametrize("more", [[], ["--dry-run"]])
def test_a_topic_of_which_the_source_has_nothing_is_said(
    more: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str], commands_in_process: None
) -> None:
    source = str(Built().put("Orders", count=3).write(tmp_path / "source"))
    asked = ["append", str(tmp_path / "to"), "--from-store", source, "--rocketmq", "5.3.3", *more]
    for topic, code in (("orders", 1), ("Orders", 1 if more else 0)):
        assert cli.main([*asked, "--topic", topic]) == code
        said = f"{source}: has no such message of topic 'orders'"
        assert (said in capsys.readouterr().err) == (topic == "orders")
