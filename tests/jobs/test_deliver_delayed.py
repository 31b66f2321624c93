"""`reput deliver-delayed`: consent, a dry run, JSON, a store in use, damage, exit codes."""

import json
import os
from pathlib import Path

import pytest

import reput
from reput.jobs.cli import main
from tests.broker.services.stores import LEVELS, T0, Clock, bodies, delayed, disk, timer, writing
from tests.broker.writer.stores import stored_records
from tests.trees import contents, write_over

WORDS = ["--rocketmq", "5.3.3", "--set", f"messageDelayLevel={LEVELS}"]
SETTINGS = {"messageDelayLevel": LEVELS}


@pytest.fixture
def store(tmp_path: Path) -> Path:
    root, clock = tmp_path / "store", Clock(T0)
    with writing(disk(root), clock) as writer:
        for message in (delayed("a", 1), timer("t", 1500), delayed("b", 3)):
            writer.append(message)
            clock.now += 10
    return root


def test_a_dry_run_tells_and_changes_nothing_nor_in_a_store_in_use(store: Path, capsys) -> None:
    before = contents(store)
    words = ["deliver-delayed", str(store), "--until", str(T0 + 5000), *WORDS]
    assert main([*words, "--dry-run"]) == 1
    assert "2 due at 2023-11-14T22:13:25.000Z: nothing was delivered" in capsys.readouterr().out
    assert main(words) == 2  # nobody says yes
    assert "would deliver 2 messages in " in capsys.readouterr().err
    assert contents(store) == before
    words = ["deliver-delayed", str(store), "--until", "now", *WORDS]
    with writing(disk(store), Clock(T0)):
        assert main([*words, "--yes"]) == 2
        assert main([*words, "--dry-run"]) == 2
    assert "holds its lock; stop the broker" in capsys.readouterr().err


def test_it_delivers_once_and_says_so(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["deliver-delayed", str(store), "--until", "2023-11-14T22:13:25Z", *WORDS, "--json"]
    assert main([*words, "--yes"]) == 0
    got = json.loads(capsys.readouterr().out)
    assert {name: got[name] for name in ("due", "delivered", "levels", "timers", "waiting")} == {
        "due": 2, "delivered": 2, "levels": 1, "timers": 1, "waiting": 1}  # fmt: skip
    before = contents(store)
    assert main(words) == 0  # nothing to ask about
    assert json.loads(capsys.readouterr().out)["due"] == 0
    assert contents(store) == before
    assert bodies(disk(store)) == ["a", "t"]
    report = reput.deliver_delayed(str(store), settings=SETTINGS, rocketmq="5.3.3")
    assert (report.due, report.delivered, report.stopped) == (1, 1, 0)
    assert bodies(disk(store)) == ["a", "t", "b"]


@pytest.mark.parametrize("name", ["checkpoint", "index/*", "consumequeue/SCHEDULE_TOPIC_XXXX/0/*"])
def test_a_file_that_is_another_stores_too_is_not_written_to(store, name, tmp_path, capsys) -> None:
    """As a copy by `cp -al` has them."""
    path = max(store.glob(name))
    (tmp_path / "backup").hardlink_to(path)
    before = path.read_bytes()
    assert main(["deliver-delayed", str(store), "--until", "now", *WORDS, "--yes"]) == 2
    assert f"{path}: has a second name elsewhere" in capsys.readouterr().err
    assert path.read_bytes() == before


@pytest.mark.parametrize("name", ["checkpoint", "index/*", "lock", "abort", "commitlog/*"])
@pytest.mark.parametrize("kind", ["FIFO", "folder", "link"])
def test_what_is_no_file_is_named(store: Path, name: str, kind: str, tmp_path, capsys) -> None:
    path = max(store.glob(name), default=store / name)
    content = path.read_bytes() if path.exists() else b""
    path.unlink(missing_ok=True)
    if kind == "FIFO":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    else:
        (tmp_path / "theirs").write_bytes(content)
        path.symlink_to(tmp_path / "theirs")
    before = contents(store)
    emptied = name == "commitlog/*" and kind != "link"  # 1: queues name messages that are gone
    code = 1 if emptied else 2
    assert main(["deliver-delayed", str(store), "--until", "now", *WORDS, "--yes"]) == code
    assert str(path) in capsys.readouterr().err or name == "commitlog/*"
    assert contents(store) == before


def test_a_file_among_the_topics_is_none_of_them(store: Path) -> None:
    """As RocketMQ passes it over, and a file manager makes it."""
    (store / "consumequeue" / ".DS_Store").write_bytes(b"x")
    assert main(["deliver-delayed", str(store), "--until", "now", *WORDS, "--yes"]) == 0
    assert bodies(disk(store)) == ["a", "t", "b"]


def test_damage_in_the_log_is_refused(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    segment = store / "commitlog" / ("0" * 20)
    write_over(segment, 4, b"evil")  # the first record's magic
    assert main(["deliver-delayed", str(store), "--until", "now", *WORDS, "--yes"]) != 0
    error = capsys.readouterr().err
    assert "offset 0 (physical 0): magic: " in error
    assert bodies_of(store) == []


@pytest.mark.parametrize("crashed", [False, True])
def test_a_torn_end_is_no_damage(store: Path, crashed: bool) -> None:
    """As a power cut leaves it; or a broker that has recovered, and cut its log there."""
    segment = store / "commitlog" / ("0" * 20)
    raw = segment.read_bytes()
    end = max(r.physical_offset + r.size for r in stored_records(store / "commitlog"))
    torn = raw[:100] + bytes(100)  # the first record once more, in part
    segment.write_bytes(raw[:end] + torn + raw[end + 200 :])
    if crashed:
        (store / "abort").write_bytes(b"")
    words = ["deliver-delayed", str(store), "--until", "now", *WORDS]
    assert main([*words, "--dry-run"]) == 1
    assert main([*words, "--yes"]) == 0
    assert bodies(disk(store)) == ["a", "t", "b"]
    assert main(["resolve-transactions", str(store), "--decide", "commit", *WORDS]) == 0


def bodies_of(store: Path) -> list[str]:
    return [path.name for path in store.glob("consumequeue/Orders/*")]


@pytest.mark.parametrize(("words", "got"), [
    (["--until", "soon"], "is not a time"), ([], "--until"),
    (["--until", "now", "--set", "timerRocksDBEnable=true"], "timers in RocksDB"),
    (["--until", "now", "--set", "timerPrecisionMs=0"], "timerPrecisionMs")])  # fmt: skip
def test_wrong_words(store: Path, capsys, words: list[str], got: str) -> None:
    try:
        code = main(["deliver-delayed", str(store), *WORDS, *words])
    except SystemExit as error:
        code = int(str(error.code))
    assert code == 2
    assert got in capsys.readouterr().err
