"""Bodies for output: decompressed where that is asked, as they stand where it fails, and why."""

import argparse
import io
import shutil
import zlib
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest

from reput.jobs import cli
from reput.jobs.cli import main
from reput.jobs.console import voice
from reput.jobs.console.options import at_least_one, before, milliseconds, number
from reput.jobs.console.rows import (
    OutputColumn,
    RowWriter,
    body_of,
    in_order,
    read_keys,
    time_column,
)
from reput.jobs.console.voice import remark
from reput.store_format.faults import StoreError
from reput.store_format.log.record import Record
from reput.store_format.message.message import Message
from reput.store_format.query.reader import StoredMessage
from reput.store_format.release.settings import SettingError
from tests.broker.writer.stores import open_writer, stored_records
from tests.jobs.listing import asked, put_store, rows
from tests.jobs.opening.writing import SETTINGS as SIZES
from tests.store_format.fate.logs import T0, SmallLog
from tests.trees import flip

COMPRESSED, BATCH, UNKNOWN = 0x1, 0x40 | 0x80, 0x1 | 4 << 8  # MessageSysFlag
BODY = b"a body, " * 20


def message(body: bytes, sys_flag: int = 0, crc: int | None = None) -> StoredMessage:
    crc = zlib.crc32(body) & 0x7FFF_FFFF if crc is None else crc
    record = Record(
        b"T", 0, 41, 700, 99, 0, crc, 0, sys_flag, 0, b"", 0, b"", 0, 0, 788, len(body), b""
    )
    return StoredMessage(record, True, lambda _: body)


def test_what_is_wrong_with_a_body_is_told_and_it_is_shown_as_it_stands(capsys) -> None:
    for sys_flag in (COMPRESSED, UNKNOWN):
        assert body_of(message(b"plain", sys_flag), True) == b"plain"
        said = capsys.readouterr().err
        assert said.startswith("reput: physical offset 700: ")
        assert said.endswith("; it is shown as it stands\n")
        voice.begin()
    assert body_of(message(b"", crc=7), False) == b""  # an empty body's is not looked at
    assert capsys.readouterr().err == ""
    assert body_of(message(b"body", crc=7), False) == b"body"
    said = "reput: physical offset 700: bodyCRC does not match the body\n"
    assert capsys.readouterr().err == said


# --- The file of --keys-file: a key a line, whatever ends the line.
def test_a_key_is_a_line_of_a_file_or_standard_input(tmp_path: Path, monkeypatch) -> None:
    for raw, keys in [
        (b"", []), (b"\n\r\n\n", []), (b"a\nb", ["a", "b"]), (b"a\r\nb\r\n", ["a", "b"]),
        (b" a b \n", [" a b "]), (b"a\x0bb\xe2\x80\xa8c\rd\n", ["a\x0bb\u2028c\rd"]),
        (b"a\na\n", ["a", "a"]),
    ]:  # fmt: skip
        (tmp_path / "keys").write_bytes(raw)
        assert read_keys(str(tmp_path / "keys")) == keys
        monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO(raw)))
        assert read_keys("-") == keys
    (tmp_path / "keys").write_bytes(b"a\n\n\xff\n")
    with pytest.raises(StoreError, match="line 3 is not UTF-8"):
        read_keys(str(tmp_path / "keys"))
    for path in (tmp_path / "none", tmp_path):
        with pytest.raises(StoreError, match=f"--keys-file {path}: "):
            read_keys(str(path))


_LISTINGS = ["stats", "delayed", "transactions", "groups", "queues", "topics"]


@pytest.fixture(scope="module")
def listed_store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("lacking") / "store"
    with open_writer(root, **SIZES) as writer:
        for number in range(700):
            writer.append(Message("T", bytes(60), 0, keys=f"k{number}", delay_level=number % 2))
    (root / "config").mkdir()
    (root / "config/consumerOffset.json").write_bytes(b'{"offsetTable":{"T@g":{0:1}}}')
    return root


def _torn(store: Path) -> None:
    """The log's last record, as a crash leaves it."""
    last = list(stored_records(store / "commitlog"))[-1].physical_offset
    path = store / "commitlog" / f"{last // (1 << 16) * (1 << 16):020}"
    flip(path, last % (1 << 16) + 4)


def _damaged(store: Path) -> None:
    path = store / "commitlog" / ("0" * 20)
    flip(path, path.read_bytes().index(bytes.fromhex("daa320a7"), 100))


def _offsets_in_bak(store: Path) -> None:
    path = store / "config/consumerOffset.json"
    path.rename(f"{path}.bak")
    path.write_bytes(bytes(30))


@pytest.mark.parametrize(("change", "lacking"), [
    (str, []), (_torn, []), (_damaged, _LISTINGS[:2]),
    (lambda store: (store / "commitlog" / f"{1 << 16:020}").unlink(), _LISTINGS),
    (lambda store: (store / "config/consumerOffset.json").write_bytes(bytes(30)), ["groups"]),
    (_offsets_in_bak, []),
])  # fmt: skip
def test_an_answer_that_lacks_something_ends_with_1(
    listed_store: Path, change: Callable[[Path], Any], lacking: list[str], tmp_path: Path
) -> None:
    """They ended with 0 and a note; what recovery cuts anyway is nothing that is lacking. The store
    never had a half message, as its queues tell.
    """
    store = Path(shutil.copytree(listed_store, tmp_path / "store"))
    change(store)
    codes = {name: main([name, str(store), "--quiet"]) for name in _LISTINGS}
    assert [name for name, code in codes.items() if code] == lacking
    assert set(codes.values()) <= {0, 1}


NOON = 1_769_860_800_000  # 20,484 days after 1970-01-01, and half a day


def test_a_time_without_a_zone_is_utc() -> None:
    for text, wanted in [
        ("0", 0), ("-1", -1), ("2026-01-31", NOON - 43_200_000), ("2026-01-31T12:00:00", NOON),
        ("2026-01-31T12:00:00Z", NOON), ("2026-01-31T20:00:00+08:00", NOON),
        ("2026-01-31 12:00:00.007", NOON + 7), ("1969-12-31T23:59:59.999Z", -1),
        ("1969-12-31T23:59:59.9995Z", -1), ("0001-01-01", -62_135_596_800_000),
    ]:  # fmt: skip
        assert milliseconds(text) == wanted
        assert before(text) == wanted - 1
    for text in ("2026-02-30", "12:00", "1.5", "٢h ago", "2026-01-31T12:00:00X"):
        with pytest.raises(argparse.ArgumentTypeError, match=f"^'{text}' is not a time: "):
            milliseconds(text)


def test_a_number_is_none_below_0_and_a_search_for_at_most_0_is_refused() -> None:
    """It said "nothing was found" of a store that has the messages."""
    assert [number("0"), number("7"), at_least_one("1")] == [0, 7, 1]
    with pytest.raises(argparse.ArgumentTypeError, match="-1 is negative"):
        number("-1")
    with pytest.raises(ValueError, match="invalid literal"):
        number("1.5")
    for text in ("0", "-1"):
        with pytest.raises(argparse.ArgumentTypeError):
            at_least_one(text)
    with pytest.raises(SystemExit):
        cli.main(["query", "s", "--topic", "T", "--max", "0"])


def test_csv_has_the_columns_of_the_first_row_and_json_each_row_s_own(capsys) -> None:
    for form, given, out in [
        ("csv", [{"a": 1, "b": None}, {"b": "x,y", "c": 3}, {"a": [1], "b": True}],
         'a,b\n1,\n,"x,y"\n[1],true\n'),
        ("csv", [], ""),
        ("json", [{"a": None}, {"b": "é\n"}], '{"a": null}\n{"b": "\\u00e9\\n"}\n'),
    ]:  # fmt: skip
        writer = RowWriter(argparse.Namespace(format=form))
        for row in given:
            writer.write(row)
        assert capsys.readouterr().out == out


def test_a_remark_is_escaped_and_told_once(capsys: pytest.CaptureFixture[str]) -> None:
    for text in ("a\x1b[2J", "a\x1b[2J", "b"):
        remark(text)
    assert capsys.readouterr() == ("", "reput: a\\x1b[2J\nreput: b\n")
    voice.begin(quiet=True)
    remark("c")
    assert capsys.readouterr() == ("", "")


# --- --sort: by columns, what is alike as it came; --tz: times shown and read.
class Sold(NamedTuple):
    name: str
    many: int | None
    when: int


SOLD = [Sold("b", 9, 5), Sold("a", 10, -1), Sold("c", None, 7), Sold("d", 9, 1)]
SOLD_COLUMNS = (
    OutputColumn("name", lambda row: row.name, True), OutputColumn("many", lambda row: row.many),
    time_column("when", lambda row: row.when), OutputColumn("", lambda row: row.name),
)  # fmt: skip


def test_rows_are_sorted_by_the_columns_values() -> None:
    for order, names in [
        (None, "bacd"), ("", "bacd"), ("name", "abcd"), ("-name", "dcba"), ("many", "cbda"),
        ("-many", "abdc"), ("-many,name", "abdc"), ("many,-name", "cdba"), ("when", "adbc"),
        ("-when", "cbda"),
    ]:  # fmt: skip
        assert "".join(row.name for row in in_order(SOLD, SOLD_COLUMNS, order)) == names, order
    for order in ("nobody", "name,", "when (UTC)", "--name", "Name"):
        with pytest.raises(SettingError, match=r"expected one of name, many, when$"):
            in_order(SOLD, SOLD_COLUMNS, order)


def test_a_limit_counts_after_the_order(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = SmallLog()
    for queue_id in (0, 1, 1, 2):
        log.put("T", queue_id)
    store = put_store(tmp_path, log)
    for words in (["--sort", "-messages,queue"], ["--sort=-messages,-topic"]):
        code, out, err = asked(capsys, "queues", store, *words, "--limit", "2")
        assert (code, [line.split()[1] for line in out[1:]]) == (0, ["1", "0"])
        assert any("1 more" in line for line in err)
    code, _, err = asked(capsys, "groups", store, "--sort", "-none")
    assert (code, "expected one of group, topic, queue" in err[-1]) == (2, True)


@pytest.mark.parametrize(("command", "words"), [
    ("topics", ()), ("query", ("--scan",)), ("export", ("--output", "x")), ("dump", ()),
    ("serve", ()), ("backups", ()),
])  # fmt: skip
def test_a_wrong_zone_is_wrong_usage(command: str, words: tuple[str, ...], capsys) -> None:
    for zone in ("Mars/Olympus", "", "+25", "../UTC", "-5:"):
        assert main([command, "nowhere", *words, "--tz", zone]) == 2
        assert "is not a time zone that this machine knows" in capsys.readouterr().err
    with pytest.raises(SystemExit):  # it is taken
        main([command, "nowhere", *words, "--tz", "-05:00", "--nonsense"])
    assert "unrecognized arguments: --nonsense" in capsys.readouterr().err


@pytest.mark.parametrize(("zone", "title", "shown"), [
    ("UTC", "(UTC)", "2023-11-14T22:13:21.000Z"),
    ("-05:00", "(-05:00)", "2023-11-14T17:13:21.000-05:00"),
    ("Asia/Shanghai", "(Asia/Shanghai)", "2023-11-15T06:13:21.000+08:00"),
    ("GMT+5:30", "(GMT+5:30)", "2023-11-15T03:43:21.000+05:30"),
])  # fmt: skip
def test_times_are_shown_and_read_in_one_zone(zone, title, shown, tmp_path, capsys) -> None:
    log = SmallLog()
    places = [log.put("T") for _ in range(3)]
    store = put_store(tmp_path, log)
    given = shown.removesuffix("Z")[:19]  # read in the zone, as it is shown
    until = given.replace(":21", ":22")
    words = ("query", store, "--topic", "T", "--since", given, "--until", until, "--tz", zone)
    code, out, _ = asked(capsys, *words)
    assert code == 0
    assert [line.split()[:2] for line in out if "T/0" in line] == [[str(places[1]), shown]]
    assert out[0].index("topic/queue") == out[1].index("T/0")
    assert title in out[0]
    assert [row["storeTimestamp"] for row in rows(capsys, *words)] == [T0 + 1000]
    _, out, _ = asked(capsys, "dump", f"{store}/commitlog/{0:020d}", "--tz", zone)
    assert f" {shown} " in out[2]
    assert out[0].index("topic/queue") == out[2].index("T/0")
    _, out, _ = asked(capsys, "queues", store)  # the next command has its own
    assert "oldest (UTC)" in out[0]
