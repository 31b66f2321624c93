"""Whatever goes wrong, a command says so in one line and ends with a code that means it."""

import argparse
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from reput.jobs import cli
from reput.jobs.console.endings import cause, ending, full_disk, meaning, no_such_command, room_of
from reput.jobs.console.options import broker_conf, setting_layers
from reput.jobs.engines.engine import SparkFailed
from reput.jobs.engines.java import NoJavaError
from reput.store_format.faults import DamageFound, PeerFailed, StoreChanged, StoreError
from reput.store_format.message.refusals import DiskFull, WriterFailed
from reput.store_format.release.settings import SettingError, merge_layers
from tests.jobs.console.running import ROOT, reput


def test_closed_streams_and_other_letters_in_a_poor_locale(tmp_path: Path) -> None:
    path = tmp_path / "checkpoint"
    path.write_bytes(bytes(4096))
    for closed in (">&-", "<&-", "2>&-", ">&- 2>&- <&-"):
        words = ["bash", "-c", f'"$1" -m reput dump "$2" {closed}', "bash", sys.executable, path]
        done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, timeout=120)
        assert (done.returncode, done.stderr) == (0, ""), closed
    assert path.read_bytes() == bytes(4096)
    for env in ({"LC_ALL": "C"}, {"PYTHONIOENCODING": "ascii"}):
        done = reput("dump", str(path.rename(tmp_path / "unknown-é")), **env)
        assert done.returncode == 2
        assert done.stderr.startswith("reput: error: ")
        assert done.stderr.count("\n") == 1
        assert "Traceback" not in done.stderr
        (tmp_path / "unknown-é").rename(path)


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


def test_a_signal_s_code_an_unforeseen_text_and_a_trace(monkeypatch, capsys) -> None:
    ended = KeyboardInterrupt()
    ended.number = signal.SIGTERM  # type: ignore[attr-defined]
    assert ending(ended) == 143
    assert meaning(KeyError("x" * 300))[1].count("x") == 199  # of 200 characters one is a quote
    monkeypatch.setenv("REPUT_TRACEBACK", "1")
    capsys.readouterr()
    assert cli.main(["dump", "/nowhere/at/all"]) == 2
    assert "Traceback" in capsys.readouterr().err
    assert cause("a\nValueError: 1\n\tat b\nTypeError: 2") == "ValueError: 1"
    assert cause("An error occurred\n: a.b.SparkException: gone") == "a.b.SparkException: gone"
    assert cause("words alone\nmore") == "words alone"


@pytest.fixture
def store(tmp_path: Path) -> str:
    """What looks like a store, before Spark starts."""
    (tmp_path / "store/commitlog").mkdir(parents=True)
    return str(tmp_path / "store")


@pytest.mark.parametrize(("words", "says"), [
    (["append", "s"], "one of the arguments --from"),
    (["query", "s", "--topc", "T"], "unrecognized arguments"),
    (["rebuild", "s"], "the following arguments"),
])  # fmt: skip
def test_wrong_words_are_two_lines(words: list[str], says: str, capsys) -> None:
    """What is wrong, and where the right ones stand."""
    with pytest.raises(SystemExit, match="2"):
        cli.main(words)
    out, errors = capsys.readouterr()
    assert (out, errors.count("\n")) == ("", 2)
    assert errors.startswith(f"reput {words[0]}: error: {says}")
    assert errors.endswith(f"\nreput help {words[0]} lists what there is\n")


@pytest.mark.parametrize(("java", "words", "says"), [
    (False, "--engine spark", "Spark needs Java 17, 21 or 25\n"),
    (True, "--master local", "PySpark is missing: pip install 'reput[spark]'"),
    (False, "--master local", "PySpark and Java are missing: pip install 'reput[spark,java]'"),
    # whose machines have a Java of their own
    (False, "--master spark://127.0.0.1:1", "PySpark is missing: pip install 'reput[spark]'"),
])  # fmt: skip
@pytest.mark.own_engine
def test_no_pyspark_or_no_java(java: bool, words: str, says: str, store, monkeypatch, capsys):
    def find() -> None:
        if not java:
            raise NoJavaError("Spark needs Java 17, 21 or 25")

    monkeypatch.setattr("reput.jobs.engines.session.find_java_home", find)
    if "master" in words:
        monkeypatch.setattr("importlib.util.find_spec", lambda *_: None)
    job = ["rebuild", store, "--output", "o", "--rocketmq", "5.3.3", *words.split()]
    assert cli.main(job) == 2
    errors = capsys.readouterr().err
    assert errors.startswith(f"reput: error: {says}")
    assert errors.count("\n") == 1


def test_an_unreachable_master_is_one_line(store: str, tmp_path: Path) -> None:
    words = ["rebuild", store, "--output", str(tmp_path / "o"), "--rocketmq", "5.3.3"]
    done = reput(*words, "--master", "spark://127.0.0.1:1")
    assert (done.returncode, done.stdout) == (3, "")
    error = "reput: error: --master spark://127.0.0.1:1: nobody answers: 127.0.0.1:1: "
    assert done.stderr.startswith(error)
    assert done.stderr.count("\n") == 1


def test_a_broker_s_file_is_read_as_java_does_and_unknown_names_are_said(tmp_path, capsys) -> None:
    """A broker passes an unknown name over; on the command line it is a mistake."""
    conf = tmp_path / "broker.conf"
    conf.write_bytes(b"# caf\xe9\nbrokerName=\xe9\nother=\\u00e9\\u4e2d\n")
    assert broker_conf(str(conf)) == {"brokerName": "é", "other": "é中"}
    conf.write_text("brokerNmae=a\nmaxIndexNum=90\nmine=1\n")
    given = argparse.Namespace(broker_conf=str(conf), assignments=["maxHashSlotNum=7"])
    assert setting_layers(given) == [{"maxIndexNum": "90"}, {"maxHashSlotNum": "7"}]
    said = capsys.readouterr().err
    assert "'brokerNmae' (brokerName?), 'mine': no settings of RocketMQ's" in said
    given.assignments = ["mine=1"]
    with pytest.raises(SettingError, match="'mine' is not a setting"):
        merge_layers(*setting_layers(given))


@pytest.mark.parametrize(("make", "says"), [
    (os.mkfifo, "is not a regular file"),
    (lambda path: path.symlink_to("/dev/zero"), "is not a regular file"),
    (Path.mkdir, "Is a directory"),
    (lambda path: path.write_bytes(b"#" * (2 << 20)), "are too many"),
    (lambda path: None, "No such file"),
])  # fmt: skip
@pytest.mark.timeout(60)
def test_a_broker_s_file_that_is_none(tmp_path, make: Callable[[Path], Any], says: str) -> None:
    make(tmp_path / "broker.conf")
    with pytest.raises(SettingError, match=says):
        broker_conf(str(tmp_path / "broker.conf"))


def test_a_full_disk_is_named_with_the_room_that_others_than_root_have(tmp_path, monkeypatch):
    for text in ("", "[Errno 13] Permission denied: '/a'", "no space left"):
        assert full_disk(text) is None
    for full in ("No space left on device", "Disk quota exceeded"):
        for path in ("", ": 'set/part'", ': "/it\'s/part"'):  # without a whole path
            said = full_disk(f"[Errno 28] {full}{path}")
            assert (said or "").startswith(f"{full}: make room where the output goes")
    path = tmp_path / "not" / "made"
    said = full_disk(f"OSError: [Errno 28] No space left on device: '{path}'; more 'x'") or ""
    assert said.startswith(f"{path}: No space left on device: the disk at /")
    assert " left; make room, or give another folder" in said
    room = Mock(f_frsize=1024, f_bavail=3, f_bfree=5, f_blocks=7 << 30)
    monkeypatch.setattr(os, "statvfs", lambda _: room)
    assert room_of("/").endswith("has 3.0 KiB of 7.0 TiB left")


def test_of_a_first_word_that_is_no_command_the_nearest_one_is_named() -> None:
    near = {"rebuid": "rebuild", "chekc": "check", "quer": "query", "Check": "check"}
    for word in [*near, "x", "", "/data/store"]:
        hint = f"did you mean {near[word]}?" if word in near else "reput --help lists them"
        error = no_such_command(word, iter(("rebuild", "check", "queues", "query")))
        assert str(error) == f"{word!r} is not a command of reput; {hint}"
    assert "\x1b" not in str(no_such_command("\x1b[2J", ["check"]))
