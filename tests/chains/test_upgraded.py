"""Stores whose broker was upgraded are healthy, and go on as the last release (decision 0024).

The real releases wrote them one after the other (tests/rocketmq/chains.py).
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from reput.jobs.catch_up import catch_up
from reput.jobs.cli import main
from reput.jobs.rebuild import rebuild
from reput.store_format.derived.checkpoint import decode, encode
from reput.store_format.discover.purpose import CHECK, LOOK, REPORT
from reput.store_format.discover.store import StoreAt, discover
from reput.store_format.files.local import LocalStorage
from reput.store_format.layouts import INDEX_HEADER
from tests.golden_stores import as_left
from tests.in_process import Session
from tests.quiet.said import run_check, run_recover, run_verify, said
from tests.rocketmq.judge import copy, difference
from tests.trees import contents, flip
from tests.unpacking import unpack as unpack_archive

STORES = Path(__file__).parent / "stores"
Upgraded = Callable[[str], Path]
HEADER, SLOT, ENTRY, SLOTS = 40, 4, 20, 20
FIRST_ENTRY = HEADER + SLOT * SLOTS + ENTRY
TAGS, THREE, COUNTS = "5.3.3_5.5.0", "4.9.7_5.3.3_5.5.0", "4.7.0_4.9.7"
RELEASES = {TAGS: "4.7.1 to 5.3.4 up to offset {}, then 5.5.0 or later",
            THREE: "4.7.1 to 5.3.4 up to offset {}, then 5.5.0 or later",
            COUNTS: "4.7.0 or older up to offset {}, then 4.7.1 to 5.3.4"}  # fmt: skip


@pytest.fixture
def upgraded(tmp_path: Path) -> Upgraded:
    def unpack(name: str) -> Path:
        unpack_archive(STORES / f"{name}.tar.xz", tmp_path)
        return tmp_path / name

    return unpack


def index_files(store: Path) -> list[Path]:
    return sorted((store / "index").iterdir())


@pytest.mark.parametrize("name", RELEASES)
def test_nothing_is_said_of_it(name: str, upgraded: Upgraded) -> None:
    store = upgraded(name)
    assert said(store, None, {}) == []
    found = discover(StoreAt(LocalStorage(), str(store)), REPORT)
    begins = f"{found.eras[1].start:,}"
    assert found.found["eras"].value == RELEASES[name].format(begins)


@pytest.mark.parametrize("name", [TAGS, COUNTS])
@pytest.mark.parametrize("number", [0, 2, -1])
@pytest.mark.parametrize(("at", "bit"), [(FIRST_ENTRY + 3, 1), (FIRST_ENTRY + 5 * ENTRY + 11, 4),
                                         (FIRST_ENTRY + 7 * ENTRY + 19, 1), (32 + 3, 2),
                                         (HEADER + 4 * SLOT + 3, 64)],
                         ids=["keyHash", "physicalOffset", "previous", "hashSlotCount",
                              "slot"])  # fmt: skip
def test_a_flipped_bit_is_found_in_files_of_either_release(name, number, at, bit, upgraded) -> None:
    store = upgraded(name)
    path = index_files(store)[number]
    flip(path, at, bit)
    found = run_check(store, None, {})
    assert any("/index/" in each.path for each in found.differences)


# --- what adds to a store -----------------------------------------------------------------------
ADDS = {"append": ["--from", "{messages}", "--yes"], "catch-up": ["--yes"],
        "deliver-delayed": ["--until", "now", "--yes"], "recover": ["--yes"],
        "resolve-transactions": ["--decide", "commit", "--yes"], "expire": ["--yes"]}  # fmt: skip


@pytest.fixture
def new_messages(tmp_path: Path) -> Path:
    rows = [{"topic": "Topic0", "queue_id": 0, "body": "x", "tags": "A", "keys": "k"}]
    path = tmp_path / "new.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows * 30))
    return path


@pytest.mark.parametrize("command", ADDS)
@pytest.mark.parametrize(("release", "of"),
                         [("5.3.3", "5.5.0 to 5.5.1"), ("4.7.0", "5.5.0 to 5.5.1")],
                         ids=["5.3.3", "4.7.0"])  # fmt: skip
def test_a_release_that_the_files_contradict_is_refused(
    command: str, release: str, of: str, upgraded: Upgraded, new_messages: Path,
    capsys: pytest.CaptureFixture[str]) -> None:  # fmt: skip
    store = upgraded(TAGS)
    before = contents(store)
    words = [word.format(messages=new_messages) for word in ADDS[command]]
    assert main([command, str(store), *words, "--rocketmq", release]) == 2
    error = capsys.readouterr().err.splitlines()[-1]
    assert error.startswith(f"reput: error: --rocketmq {release}: the store's files are of {of}: ")
    assert contents(store) == before


def test_a_newer_release_than_the_store_s_is_refused(tmp_path, new_messages: Path, capsys) -> None:
    store = as_left("small_all_5.3.3", tmp_path)
    before = contents(store)
    words = ["append", "--yes", str(store), "--from", str(new_messages), "--rocketmq"]
    assert main([*words, "5.5.0"]) == 2
    assert "5.5.0: the store's files are of 5.1.0 to 5.3.4" in capsys.readouterr().err
    assert contents(store) == before


@pytest.mark.parametrize(("name", "release"), [(TAGS, None), (THREE, None), (COUNTS, "4.9.7")])
def test_what_is_appended_is_of_the_last_release(
    name: str, release: str | None, upgraded: Upgraded, new_messages: Path,
    capsys: pytest.CaptureFixture[str]) -> None:  # fmt: skip
    store = upgraded(name)
    words = ["append", "--yes", str(store), "--from", str(new_messages)]
    assert main([*words, *(("--rocketmq", release) if release else ())]) == 0
    assert "  releases  " in capsys.readouterr().out
    assert said(store, release, {}) == []  # type: ignore[arg-type]
    assert main([*words, "--no-dispatch", *(("--rocketmq", release) if release else ())]) == 0
    assert catch_up(str(store)).done
    assert said(store, release, {}) == []  # type: ignore[arg-type]


def test_catch_up_makes_again_what_was_cut_off(upgraded: Upgraded) -> None:
    store = upgraded(TAGS)
    whole = store.parent / "whole"
    copy(store, whole)
    headers = [np.frombuffer(path.read_bytes(), INDEX_HEADER, 1)[0] for path in index_files(store)]
    parts = (n for n in range(2, len(headers))
             if headers[n]["beginPhyOffset"] != headers[n - 1]["endPhyOffset"])  # fmt: skip
    for path in index_files(store)[next(parts) :]:
        path.unlink()
    assert catch_up(str(store)).done
    assert difference(store, whole) is None


def test_behind_the_index_counts_the_release_of_the_checkpoint(upgraded: Upgraded) -> None:
    store = upgraded(TAGS)
    found = discover(StoreAt(LocalStorage(), str(store)), LOOK)
    for path in index_files(store)[1:]:
        path.unlink()
    again = discover(StoreAt(LocalStorage(), str(store)), LOOK)
    assert (again.release, len(again.eras)) == (found.release, 2)
    assert 0 < again.eras[1].start < found.eras[1].start


def test_a_killed_upgraded_broker_s_files_are_made_as_it_would(upgraded: Upgraded) -> None:
    """It deletes each index file that its checkpoint does not vouch for, and makes it anew."""
    store = upgraded(TAGS)
    (store / "abort").write_bytes(b"1")
    checkpoint = store / "checkpoint"
    checkpoint.write_bytes(encode(decode(checkpoint.read_bytes())._replace(index_msg_timestamp=0)))
    assert run_recover(store, None, {}, dry_run=False).done
    found = discover(StoreAt(LocalStorage(), str(store)), LOOK)
    assert (found.release, found.eras) == ("5.5.1", ())
    assert said(store, None, {}) == []


# --- a rebuild, of one release ------------------------------------------------------------------
def rebuilt(store: Path, output: Path, rocketmq: str | None) -> Any:
    return rebuild(Session(), str(store), str(output), rocketmq=rocketmq)  # type: ignore[arg-type]


def test_a_rebuild_says_which_release_it_chooses(upgraded: Upgraded, tmp_path) -> None:
    store = upgraded(TAGS)
    summary = rebuilt(store, tmp_path / "out", None)
    (warning,) = summary.warnings
    assert warning.startswith("the store's own files are of several releases (4.7.1 to 5.3.4 up to")
    assert warning.endswith("; all is derived as RocketMQ 5.5.1 would, which wrote last")
    keys = rebuilt(store, tmp_path / "old", "5.3.3")
    assert keys.index_keys < summary.index_keys
    assert keys.warnings[0].startswith(
        "--rocketmq 5.3.3: the store's files are of 5.5.0 to 5.5.1: "
    )


def test_a_message_that_each_start_indexes_again_is_known(upgraded: Upgraded) -> None:
    """By a 5.5.0 broker with half messages in RocksDB; this one was started five times."""
    store = upgraded("again_5.5.0")
    assert said(store, None, {}) == []
    discovered = discover(StoreAt(LocalStorage(), str(store)), CHECK)
    times = [extra // 4 for _, extra in discovered.again]  # UNIQ_KEY, two keys, a tag
    assert times == [2, 1]  # two starts behind the second half message, one behind the third
    # who does not read all of it looks at what each file begins with, and finds these too
    assert discover(StoreAt(LocalStorage(), str(store)), LOOK).again == discovered.again
    place = discovered.again[0][0]
    for path in index_files(store):
        raw = bytearray(path.read_bytes())
        for at in range(FIRST_ENTRY - ENTRY, len(raw), ENTRY):
            if int.from_bytes(raw[at + 4 : at + 12]) == place:
                raw[at + 2 * ENTRY + 1] ^= 4
                path.write_bytes(raw)
                assert not run_check(store, None, {}).sound
                assert not run_verify(store, None, {}).same
                return
    raise AssertionError("the message is not in the index")
