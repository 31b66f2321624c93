"""Whatever goes wrong, a command says so in one line and ends with a code that means it."""

import argparse
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from unittest.mock import Mock

import pytest

from reput.jobs import cli
from reput.jobs.console.endings import cause, ending, full_disk, meaning, no_such_command, room_of
from reput.jobs.console.options import broker_conf, setting_layers
from reput.jobs.engines.engine import SparkFailed
from reput.jobs.engines.java import NoJavaError, check_reachable, hosts
from reput.store_format.faults import DamageFound, PeerFailed, StoreChanged, StoreError
from reput.store_format.message.refusals import DiskFull, WriterFailed
from reput.store_format.release.settings import SettingError, merge_layers
from tests.jobs.console.running import ROOT, reput


def checkpoint(folder: Path, name: str = "checkpoint") -> str:
    folder.mkdir(exist_ok=True)
    (folder / name).write_bytes(bytes(4096))
    return str(folder / name)


def shell(script: str, *words: str, **env: str) -> subprocess.CompletedProcess[str]:
    command = ["bash", "-c", script, "bash", sys.executable, *words]
    return subprocess.run(
        command, cwd=ROOT, env={**os.environ, **env}, capture_output=True, text=True, timeout=120
    )


@pytest.mark.parametrize(("error", "code", "says"), [
    (DamageFound("damage"), 1, "damage"),
    (DamageFound("at 96: damage", "the log is damaged"), 1, "the log is damaged"),
    (StoreError("no such store"), 2, "no such store"), (SettingError("unknown"), 2, "unknown"),
    (NoJavaError("Spark needs Java 17"), 2, "Spark needs Java 17"),
    (ModuleNotFoundError("x", name="pyspark"), 2, "pyspark is missing: pip install"),
    (ValueError("embedded null byte"), 2, "a path holds a NUL"),
    (StoreChanged("changed"), 3, "changed"),
    (PeerFailed("10.0.0.5:10912: is none"), 3, "10.0.0.5:10912: is none"),
    (OSError(28, "No space left on device"), 3, "No space left"),
    (WriterFailed("the writer has ended"), 3, "has ended"),
    (DiskFull("the disk is 91% full"), 3, "91% full"),
    (
        OSError(28, "No space left on device", "/proc/x"), 3,
        "/proc/x: No space left on device: "
        "the disk at /proc has 0 bytes of 0 bytes left; make room",
    ),
    (
        SparkFailed("x\nOSError: [Errno 28] No space left on device: '/proc/y'"), 3,
        "/proc/y: No space left on device: the disk at /proc has",
    ),
    (SparkFailed("x\n: java.io.IOException: no\n\tat y"), 3, "java.io.IOException: no"),
    (MemoryError(), 3, "out of memory"), (RecursionError("deep"), 3, "nested too deeply"),
    (KeyError("unforeseen"), 3, "KeyError"), (OverflowError("int\ntoo large"), 3, "int too large"),
])  # fmt: skip
def test_each_error_has_its_code(error, code: int, says: str, monkeypatch, capsys) -> None:
    def fails(_: object) -> None:
        raise error

    monkeypatch.setattr("reput.jobs.rebuild.run", fails)
    assert cli.main(["rebuild", "S", "--output", "O", "--rocketmq", "5.3.3"]) == code
    said, errors = capsys.readouterr()
    assert said == ""
    assert errors.startswith("reput: error: ")
    assert errors.count("\n") == 1
    assert says in errors
    assert meaning(error)[0] == code


def test_a_signal_has_its_own_code_and_an_unforeseen_text_is_cut() -> None:
    ended = KeyboardInterrupt()
    ended.number = signal.SIGTERM  # type: ignore[attr-defined]
    assert ending(ended) == 143
    assert meaning(KeyError("x" * 300))[1].count("x") == 199  # of 200 characters one is a quote


def test_a_traceback_is_there_for_who_asks(monkeypatch, capsys) -> None:
    monkeypatch.setenv("REPUT_TRACEBACK", "1")
    assert cli.main(["dump", "/nowhere/at/all"]) == 2
    assert "Traceback" in capsys.readouterr().err


def test_what_failed_is_taken_out_of_a_trace() -> None:
    assert cause("a\nValueError: 1\n\tat b\nTypeError: 2") == "ValueError: 1"
    assert cause("An error occurred\n: a.b.SparkException: gone") == "a.b.SparkException: gone"
    assert cause("words alone\nmore") == "words alone"


@pytest.fixture
def store(tmp_path: Path) -> str:
    """What looks like a store, before Spark starts."""
    (tmp_path / "store/commitlog").mkdir(parents=True)
    return str(tmp_path / "store")


@pytest.mark.own_engine
def test_no_java(store: str, monkeypatch, capsys) -> None:
    def none() -> None:
        raise NoJavaError("Spark needs Java 17, 21 or 25")

    monkeypatch.setattr("reput.jobs.engines.session.find_java_home", none)
    words = ["rebuild", store, "--output", "o", "--rocketmq", "5.3.3", "--engine", "spark"]
    assert cli.main(words) == 2
    assert capsys.readouterr().err == "reput: error: Spark needs Java 17, 21 or 25\n"


@pytest.mark.parametrize(("words", "says", "asks"), [
    (["append", "s"], "reput append: error: one of the arguments --from", "append"),
    (["query", "s", "--topc", "T"], "reput query: error: unrecognized arguments", "query"),
    (["rebuild", "s"], "reput rebuild: error: the following arguments", "rebuild"),
])  # fmt: skip
def test_wrong_words_are_two_lines(words: list[str], says: str, asks: str, capsys) -> None:
    """What is wrong, and where the right ones stand."""
    with pytest.raises(SystemExit, match="2"):
        cli.main(words)
    out, errors = capsys.readouterr()
    assert (out, errors.count("\n")) == ("", 2)
    assert errors.startswith(says)
    where = f"reput help {asks}" if asks else "reput --help"
    assert errors.endswith(f"\n{where} lists what there is\n")


@pytest.mark.parametrize(("words", "says"), [
    (["--from", "none.jsonl"], "--from none.jsonl: No such file or directory"),
    (["--from", "none.parquet"], "--from none.parquet: No such file or directory"),
    (["--from", "none"], "--from none: No such file or directory"),
    (["--from-store", "none"], "--from-store none: No such file or directory"),
])  # fmt: skip
def test_what_is_to_be_appended_is_not_there(words: list[str], says: str, tmp_path, capsys) -> None:
    assert cli.main(["append", str(tmp_path / "s"), *words, "--rocketmq", "5.3.3"]) == 2
    assert capsys.readouterr().err == f"reput: error: {says}\n"
    assert not (tmp_path / "s").exists()


@pytest.mark.parametrize(
    ("java", "says"),
    [(True, "PySpark is missing: pip install 'reput[spark]'"),
     (False, "PySpark and Java are missing: pip install 'reput[spark,java]'")],
)  # fmt: skip
@pytest.mark.parametrize("master", ["local", "spark://127.0.0.1:1"])
@pytest.mark.own_engine
def test_no_pyspark(java: bool, says: str, master: str, store: str, monkeypatch, capsys) -> None:
    def find() -> None:
        if not java:
            raise NoJavaError("Spark needs Java 17, 21 or 25")

    monkeypatch.setattr("reput.jobs.engines.session.find_java_home", find)
    monkeypatch.setattr("importlib.util.find_spec", lambda *_: None)
    words = ["rebuild", store, "--output", "o", "--rocketmq", "5.3.3", "--master", master]
    assert cli.main(words) == 2
    errors = capsys.readouterr().err
    if master != "local":  # whose machines have a Java of their own
        says = "PySpark is missing: pip install 'reput[spark]'"
    assert errors.startswith(f"reput: error: {says}")
    assert errors.count("\n") == 1


def test_a_master_that_is_not_there() -> None:
    assert hosts("spark://a:7077,b:7078") == [("a", 7077), ("b", 7078)]
    assert hosts("sc://a/;x=y") == [("a", 15002)]
    assert hosts("sc://[::1]:5") == [("::1", 5)]
    assert hosts("yarn") == hosts("k8s://https://x:1") == hosts("local[2]") == []
    with pytest.raises(SparkFailed, match=r"nobody answers: 127.0.0.1:1: "):
        check_reachable("spark://127.0.0.1:1")


def test_an_unreachable_master_is_one_line(store: str, tmp_path: Path) -> None:
    words = ["rebuild", store, "--output", str(tmp_path / "o"), "--rocketmq", "5.3.3"]
    done = reput(*words, "--master", "spark://127.0.0.1:1")
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr.startswith("reput: error: --master spark://127.0.0.1:1: nobody answers")
    assert done.stderr.count("\n") == 1


def test_a_broker_s_file_is_latin_1_as_java_reads_it(tmp_path: Path) -> None:
    conf = tmp_path / "broker.conf"
    conf.write_bytes(b"# caf\xe9\nbrokerName=\xe9\nother=\\u00e9\\u4e2d\n")
    assert broker_conf(str(conf)) == {"brokerName": "é", "other": "é中"}


def _fifo(path: Path) -> None:
    os.mkfifo(path)


def _large(path: Path) -> None:
    path.write_bytes(b"#" * (2 << 20))


@pytest.mark.parametrize(("make", "says"), [
    (_fifo, "is not a regular file"),
    (lambda path: path.symlink_to("/dev/zero"), "is not a regular file"),
    (lambda path: path.mkdir(), "Is a directory"), (_large, "are too many"),
    (lambda path: None, "No such file"),
])  # fmt: skip
@pytest.mark.timeout(60)
def test_a_broker_s_file_that_is_none(tmp_path, make: Callable[[Path], None], says: str) -> None:
    make(tmp_path / "broker.conf")
    with pytest.raises(SettingError, match=says):
        broker_conf(str(tmp_path / "broker.conf"))


def test_closed_streams(tmp_path: Path) -> None:
    path = checkpoint(tmp_path)
    for closed in (">&-", "<&-", "2>&-", ">&- 2>&- <&-"):
        done = shell(f'"$1" -m reput dump "$2" {closed}', path)
        assert (done.returncode, done.stderr) == (0, ""), closed
    assert (tmp_path / "checkpoint").read_bytes() == bytes(4096)


@pytest.mark.parametrize("env", [{"LC_ALL": "C"}, {"PYTHONIOENCODING": "ascii"}])
def test_other_letters_in_a_poor_locale(tmp_path: Path, env: dict[str, str]) -> None:
    path = checkpoint(tmp_path / "中é", "unknown-é")
    done = reput("dump", path, **env)
    assert done.returncode == 2
    assert done.stderr.startswith("reput: error: ")
    assert done.stderr.count("\n") == 1
    assert "Traceback" not in done.stderr


def test_a_nul_in_a_path(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["dump", "a\0b"]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_topics_nested_deeply_and_a_name_that_is_no_long(tmp_path, capsys) -> None:
    log = tmp_path / "store" / "commitlog"
    log.mkdir(parents=True)
    (log / f"{0:020d}").write_bytes(bytes(4096))
    config = tmp_path / "store" / "config"
    config.mkdir()
    (config / "topics.json").write_text("[" * 200_000)
    words = ["rebuild", str(tmp_path / "store"), "--output", str(tmp_path / "out"),
             "--rocketmq", "5.3.3", "--set", "mappedFileSizeCommitLog=4096"]  # fmt: skip
    assert cli.main([*words, "--json"]) == 0
    assert "is not JSON" in json.dumps(json.loads(capsys.readouterr().out))
    (log / "99999999999999991808").write_bytes(bytes(4096))
    assert cli.main([*words, "--replace"]) == 1  # no broker starts beside that file
    warning, left = [line for line in capsys.readouterr().out.splitlines() if f"{log}/9999" in line]
    assert "99999999999999991808: is not a file of RocketMQ's, which takes it for" in warning
    assert "no broker starts yet" in left


def test_what_rocketmq_does_not_know_in_a_brokers_file_is_said_at_once(tmp_path, capsys) -> None:
    """A broker passes it over; on the command line it is a mistake."""
    conf = tmp_path / "broker.conf"
    conf.write_text("brokerNmae=a\nmaxIndexNum=90\nmine=1\n")
    given = argparse.Namespace(broker_conf=str(conf), assignments=["maxHashSlotNum=7"])
    assert setting_layers(given) == [{"maxIndexNum": "90"}, {"maxHashSlotNum": "7"}]
    said = capsys.readouterr().err
    assert "'brokerNmae' (brokerName?), 'mine': no settings of RocketMQ's" in said
    given.assignments = ["mine=1"]
    with pytest.raises(SettingError, match="'mine' is not a setting"):
        merge_layers(*setting_layers(given))


# --- What a person reads when a disk is full.
@pytest.mark.parametrize("text", ["", "[Errno 13] Permission denied: '/a'", "no space left"])
def test_another_error_is_none_of_a_full_disk(text: str) -> None:
    assert full_disk(text) is None


@pytest.mark.parametrize("full", ["No space left on device", "Disk quota exceeded"])
@pytest.mark.parametrize("path", ["", ": 'set/part'", ': "/it\'s/part"'])
def test_without_a_whole_path_the_places_are_named_where_files_go(full: str, path: str) -> None:
    said = full_disk(f"[Errno 28] {full}{path}")
    assert said is not None
    assert said.startswith(f"{full}: make room where the output goes")


def test_the_disk_of_a_path_is_named_though_the_path_is_not_made_yet(tmp_path: Path) -> None:
    path = tmp_path / "not" / "made"
    said = full_disk(f"OSError: [Errno 28] No space left on device: '{path}'; more 'x'")
    assert said is not None
    assert said.startswith(f"{path}: No space left on device: the disk at /")
    assert " left; make room, or give another folder" in said


def test_room_is_what_others_than_root_have(monkeypatch: pytest.MonkeyPatch) -> None:
    room = Mock(f_frsize=1024, f_bavail=3, f_bfree=5, f_blocks=7 << 30)
    monkeypatch.setattr(os, "statvfs", lambda _: room)
    assert room_of("/").endswith("has 3.0 KiB of 7.0 TiB left")


# --- A first word that is not a command: the nearest one is named, if any is near.
COMMANDS = ("rebuild", "check", "queues", "query")


@pytest.mark.parametrize(("word", "hint"), [
    ("rebuid", "did you mean rebuild?"), ("chekc", "did you mean check?"),
    ("quer", "did you mean query?"), ("Check", "did you mean check?"),
    ("x", "reput --help lists them"), ("", "reput --help lists them"),
    ("/data/store", "reput --help lists them"),
])  # fmt: skip
def test_the_nearest_command_is_named(word: str, hint: str) -> None:
    error = no_such_command(word, iter(COMMANDS))
    assert str(error) == f"{word!r} is not a command of reput; {hint}"


def test_what_a_terminal_would_obey_is_escaped() -> None:
    assert "\x1b" not in str(no_such_command("\x1b[2J", COMMANDS))
