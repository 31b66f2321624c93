"""The command line: what it prints where, and with which code it ends. Spark stands aside."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from reput.jobs import cli
from reput.store_format.faults import StoreChanged
from reput.store_format.release.profiles import RELEASES
from tests.built import write_log
from tests.logs.encoder import Message, build_log, properties
from tests.processes import run_python
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
    path = store / "commitlog" / f"{0:020d}"
    flip(path, offset)


def run(store: Path, *words: str, command: str = "rebuild") -> int:
    output = ("--output", str(store.parent / "output")) if command == "rebuild" else ()
    return cli.main([command, str(store), *output, "--rocketmq", "5.3.3", *SIZES, *words])


@pytest.mark.parametrize(("words", "shown"), [(["--json"], False), ([], True)])
def test_progress_stays_out_of_json_where_both_share_a_stream(
    store: Path, words: list[str], shown: bool
) -> None:
    # as spark-submit gives them to the driver
    program = (
        "import argparse, sys; from reput.jobs.console.options import add_store, asked_of\n"
        "from reput.jobs.console.declared import OfStore\n"
        "parser = argparse.ArgumentParser(); add_store(parser)\n"
        "print(type(asked_of(parser.parse_args(sys.argv[1:]), OfStore).progress).__name__)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(store), "--rocketmq", "5.3.3", *words],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=True,
    )  # fmt: skip
    assert done.stdout.strip() == ("ShownProgress" if shown else "Progress")


def test_rebuild_says_what_it_did(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(store) == 0
    said, errors = capsys.readouterr()
    assert errors == ""
    for line in ("60 messages", "1 queue in 6 files", "60 index keys in 2 files"):
        assert line in said


def test_json_is_one_object_and_nothing_else(store: Path, capsys) -> None:
    assert run(store, "--json") == 0
    said, _ = capsys.readouterr()
    summary = json.loads(said)
    assert said.count("\n") == 1
    assert (summary["messages"], summary["queue_files"], summary["index_files"]) == (60, 6, 2)


def test_damage_ends_with_one(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
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
    assert run(store, "--on-damage", "truncate") == 0
    assert "0 messages" in capsys.readouterr().out


def test_the_body_crc_can_be_left(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    spoil(store, 90)
    assert run(store, "--no-check-crc") == 0
    assert "60 messages" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--set", "maxIndexNumm=5"), "did you mean maxIndexNum?"),
        (("--set", "maxIndexNum"), "'maxIndexNum' is not NAME=VALUE"),
        (("--set", "enableRocksDBStore=true"), "enableRocksDBStore=true: reput does not build"),
        (("--rocketmq", "6.0.0"), "'6.0.0' is not a release"),
        (("--broker-conf", "none.conf"), "--broker-conf none.conf: No such file"),
    ],
)
def test_wrong_usage_ends_with_two(store: Path, capsys, words: tuple[str, ...], says: str) -> None:
    assert run(store, *words) == 2
    assert says in capsys.readouterr().err
    assert not (store.parent / "output").exists()


def test_a_wrong_store_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(tmp_path / "none") == 2
    assert f"{tmp_path}/none/commitlog: no such folder" in capsys.readouterr().err


def test_an_output_in_use_is_wrong_usage(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(store) == 0
    assert run(store) == 2
    assert "output: is not empty; --replace" in capsys.readouterr().err
    assert run(store, "--replace") == 0


def test_a_log_that_changes_ends_with_three(store: Path, monkeypatch, capsys) -> None:
    def changed(*_: Any) -> None:
        raise StoreChanged("a segment: changed")

    monkeypatch.setattr("reput.jobs.deriving.derive_set.check_unchanged", changed)
    assert run(store) == 3
    assert capsys.readouterr().err == "reput: error: a segment: changed\n"


def test_an_unknown_option_is_wrong_usage(store: Path) -> None:
    with pytest.raises(SystemExit) as ended:
        run(store, "--nonsense")
    assert ended.value.code == 2


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


def test_help_names_every_command_and_code(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        cli.main(["--help"])
    assert ended.value.code == 0
    said = capsys.readouterr().out
    for word in ("rebuild", "verify", "dump", "exit codes", "0  done", "1  damage"):
        assert word in said
    with pytest.raises(SystemExit):
        cli.main(["rebuild", "--help"])
    assert RELEASES[-1] in capsys.readouterr().out


def test_a_command_imports_what_it_needs_only_when_it_runs() -> None:
    """The help shows at once, and the JVM starts while Python imports the rest."""
    program = (
        "import sys; from reput.jobs import cli\n"
        "for name in ('rebuild', 'verify', 'check', 'repair', 'recover'):\n"
        "    try: cli.main([name, '--help'])\n"
        "    except SystemExit: pass\n"
        "print(*{'numba', 'pandas', 'pyspark', 'pyarrow'} & set(sys.modules), file=sys.stderr)"
    )
    done = run_python("-c", program)
    assert done.stderr.strip() == ""
