"""The command line: what it prints where, and with which code it ends. Spark stands aside."""

import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from reput.jobs import cli
from reput.jobs.deliver_delayed import DeliverReport
from reput.jobs.in_place.catch_up import CaughtUp
from reput.jobs.in_place.recover import Recovered
from reput.jobs.install import Installed
from reput.jobs.report import Reported
from reput.jobs.resolve_transactions import ResolveReport
from reput.store_format.faults import StoreChanged
from tests.built import write_log
from tests.logs.encoder import Message, build_log, properties
from tests.trees import flip

SEGMENT = 4096
SIZES = ("--set", f"mappedFileSizeCommitLog={SEGMENT}", "--set", "maxIndexNum=50",
         "--set", "maxHashSlotNum=7", "--set", "mappedFileSizeConsumeQueue=200")  # fmt: skip


@pytest.fixture
def store(tmp_path: Path) -> Path:
    messages = [Message(queue_offset=n, body=b"body", properties=properties(("KEYS", f"k{n}")))
                for n in range(60)]  # fmt: skip
    return write_log(tmp_path / "store", build_log(messages, SEGMENT))


def spoil(store: Path, offset: int) -> None:
    flip(store / "commitlog" / f"{0:020d}", offset)


def run(store: Path, *words: str, command: str = "rebuild") -> int:
    output = ("--output", str(store.parent / "output")) if command == "rebuild" else ()
    return cli.main([command, str(store), *output, "--rocketmq", "5.3.3", *SIZES, *words])


@pytest.mark.parametrize(("words", "shown"), [(["--json"], False), ([], True)])
def test_progress_stays_out_of_json_where_both_share_a_stream(store, words, shown) -> None:
    # as spark-submit gives them to the driver
    program = (
        "import argparse, sys; from reput.jobs.console.options import add_store, asked_of\n"
        "from reput.jobs.console.declared import OfStore\n"
        "parser = argparse.ArgumentParser(); add_store(parser)\n"
        "print(type(asked_of(parser.parse_args(sys.argv[1:]), OfStore).progress).__name__)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(store), "--rocketmq", "5.3.3", *words],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=True)  # fmt: skip
    assert done.stdout.strip() == ("ShownProgress" if shown else "Progress")


def test_damage_ends_with_one_and_the_body_crc_can_be_left(store: Path, capsys) -> None:
    spoil(store, 90)  # in the first body
    assert run(store) == 1
    said, errors = capsys.readouterr()
    assert said == ""
    assert errors.startswith(
        "reput: error: Damaged message at offset 0 (checksum does not match). Intact messages "
        f"follow. {store}/commitlog/{0:020d}: offset 0; "
    )
    assert errors.endswith("--on-damage salvage skips it, truncate stops there as RocketMQ does.\n")
    assert not (store.parent / "output").exists()
    assert run(store, "--no-check-crc") == 0
    assert "60 messages" in capsys.readouterr().out
    assert run(store, "--replace", "--on-damage", "truncate") == 0
    assert "0 messages" in capsys.readouterr().out


WRONG = {"did you mean maxIndexNum?": ("--set", "maxIndexNumm=5"),
         "'maxIndexNum' is not NAME=VALUE": ("--set", "maxIndexNum"),
         "enableRocksDBStore=true: reput does not build": ("--set", "enableRocksDBStore=true"),
         "'6.0.0' is not a release": ("--rocketmq", "6.0.0"),
         "--broker-conf none.conf: No such file": ("--broker-conf", "none.conf")}  # fmt: skip


def test_wrong_usage_ends_with_two(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for says, words in WRONG.items():
        assert run(store, *words) == 2
        assert says in capsys.readouterr().err
        assert not (store.parent / "output").exists()
    assert run(store / "none") == 2
    assert f"{store}/none/commitlog: no such folder" in capsys.readouterr().err
    with pytest.raises(SystemExit) as ended:
        run(store, "--nonsense")
    assert ended.value.code == 2


def test_a_log_that_changes_ends_with_three(store: Path, monkeypatch, capsys) -> None:
    def changed(*_: Any) -> None:
        raise StoreChanged("a segment: changed")

    monkeypatch.setattr("reput.jobs.deriving.derive_set.check_unchanged", changed)
    assert run(store) == 3
    assert capsys.readouterr().err == "reput: error: a segment: changed\n"


def test_a_broker_s_own_file(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    conf = store.parent / "broker.conf"
    conf.write_text(f"# broker\nbrokerName=a\nmappedFileSizeCommitLog={SEGMENT}\nmaxIndexNum = 1\n")
    output = ["--output", str(store.parent / "output"), "--rocketmq", "5.3.3"]
    code = cli.main(["rebuild", str(store), *output, "--broker-conf", str(conf), *SIZES])
    assert code == 0  # --set goes over it: maxIndexNum=1 would have been refused
    assert "60 index keys in 2 files" in capsys.readouterr().out


def test_unsafe_topics_are_listed_and_reported_by_the_code(tmp_path, capsys) -> None:
    folder = tmp_path / "store" / "commitlog"
    folder.mkdir(parents=True)
    (folder / f"{0:020d}").write_bytes(build_log([Message(topic="../evil")], SEGMENT)[0])
    assert run(tmp_path / "store") == 1
    assert "left out  topic '../evil' holds a path separator" in capsys.readouterr().out


# words -> the function whose report the command tells, and exit codes by what is in the report
MADE: dict[str, Any] = {"as_json.return_value": {}, "text.return_value": "", "left_out": [],
                        "details.return_value": (), "first": ""}  # fmt: skip
CODES: dict[str, tuple[str, Callable[..., Any], list[tuple[dict[str, Any], int]]]] = {
    "catch-up S --yes": ("catch_up.catch_up", partial(CaughtUp, "S", "", "5.3.3", 0, 0, ""), [
    ({}, 0), ({"needed": True, "done": True}, 0), ({"needed": True}, 1),
    ({"left_out": ["T/0"]}, 1), ({"lacking": ["T/0"]}, 1)]),
    "recover S --yes": ("recover.recover", partial(Recovered, "S", "5.3.3", 0, ""), [
    ({}, 0), ({"written": ["q"], "done": True}, 0), ({"written": ["q"]}, 1),
    ({"left_out": ["m"]}, 1), ({"lost_past_end": 1}, 1)]),
    "convert S --dry-run": ("convert.convert", partial(Mock, **MADE), [({"lacks": []}, 1)]),
    "convert S --output o": ("convert.convert", partial(Mock, **MADE), [
    ({"lacks": []}, 0), ({"lacks": 1}, 1)]),
    "install set S --yes": ("install.install_set", partial(Installed, "S", "set", ""), [
    ({"done": True}, 0), ({"done": False}, 1), ({"done": True, "in_the_way": ["x"]}, 1)]),
    "report S --output p.html --no-check": ("report.report", lambda sound: Reported(
    "p.html", 1, sound, "", {}), [({"sound": True}, 0), ({"sound": None}, 0),
                                  ({"sound": False}, 1)]),
    "resolve-transactions S --yes --decide commit": (
    "resolve_transactions.resolve_transactions", partial(ResolveReport, "S"), [
    ({"done": True}, 0), ({"needed": True}, 1), ({"refused": ["b"], "done": True}, 1),
    ({"otherwise": ["a: committed"], "done": True}, 1), ({"stopped": 143, "done": True}, 143)]),
    "deliver-delayed S --until now --yes": (
    "deliver_delayed.deliver_delayed", partial(DeliverReport, "S", 0),
    [({"refused": ["the record at 7: DLQ"]}, 1)])}  # fmt: skip


@pytest.mark.usefixtures("commands_in_process")
@pytest.mark.parametrize("words", CODES)
def test_the_exit_code_says_what_is_left_to_do_or_lost(
    words: str, tmp_path, monkeypatch, capsys
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "S" / "commitlog").mkdir(parents=True)
    name, made, codes = CODES[words]
    for about, code in codes:
        report = made(**about)
        monkeypatch.setattr(f"reput.jobs.{name}", lambda *_: report)  # noqa: B023
        assert cli.main(words.split()) == code, about
        assert all(
            f"refused: {each}" in capsys.readouterr().out for each in about.get("refused", [])
        )
        if words.startswith("catch-up"):  # of what it followed a stream says what is lacking
            monkeypatch.setattr("reput.jobs.catch_up.follow", lambda asked: asked.said(report))  # noqa: B023
            assert cli.main([*words.split(), "--follow"]) == bool(report.lacking), about
