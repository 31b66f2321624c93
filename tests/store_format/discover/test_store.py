"""What a store tells, no option wants: sizes, release, kinds of queues, a broker's own settings."""

import errno
import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from reput.jobs.catch_up import catch_up
from reput.jobs.check import check
from reput.jobs.cli import main
from reput.jobs.judging.shown import text
from reput.jobs.opening.open_writer import open_writer
from reput.jobs.rebuild import rebuild
from reput.jobs.recover import recover
from reput.jobs.repair import repair
from reput.jobs.verify import verify
from reput.store_format.discover.purpose import LOOK
from reput.store_format.discover.sizes import SizeDisagrees
from reput.store_format.discover.store import Discovered, StoreAt, discover, discovered_lines
from reput.store_format.faults import StoreError
from reput.store_format.files.folder import Folder
from reput.store_format.files.local import LocalStorage
from reput.store_format.release.profiles import Has, UnknownRelease, release_named, same_files
from reput.store_format.release.settings import SettingError
from tests import golden_stores
from tests.golden_stores import as_left
from tests.in_process import Session
from tests.trees import write_over

LOCAL = LocalStorage()
SEGMENT, QUEUE = "mappedFileSizeCommitLog", "mappedFileSizeConsumeQueue"
SMALL = {SEGMENT: "8192", QUEUE: "100", "maxHashSlotNum": "7", "maxIndexNum": "20"}


def discovered(store: Path, rocketmq: str | None = "5.3.3", **settings: str) -> Discovered:
    return discover(StoreAt(LOCAL, str(store), rocketmq, settings), LOOK)


def run(command: Any, *words: Any, **named: Any) -> Any:
    return command(Session(), *words, **named)


@pytest.mark.parametrize("name", golden_stores.names())
def test_what_a_broker_left_tells_its_settings(name: str) -> None:
    golden = golden_stores.unpack(name)
    derived = Folder(LOCAL, str(golden.expect))
    found = discover(StoreAt(LOCAL, str(golden.input), golden.version, {}), LOOK, derived=derived)
    wanted = {n: str(v).lower() for n, v in golden.settings.items() if n != "forceVerifyPropCRC"}
    assert {n: found.settings.get(n) for n in wanted} == wanted
    assert found.warnings == []
    try:
        found = discover(StoreAt(LOCAL, str(golden.input)), LOOK, derived=derived)
    except UnknownRelease:
        assert not golden.version.startswith("5.") or name in (
            "lmq_batch_5.3.3", "small_expired_5.3.3")  # fmt: skip
    else:
        plain = "derive the same from this log" in found.found["rocketmq"].by
        has = Has(False, False, odd_positions=not plain, malformed=not plain)
        assert same_files(release_named(golden.version), found.release, has)


def test_what_was_found_is_shown_in_the_manifest_and_said_by_services(tmp_path, capsys) -> None:
    store = as_left("small_all_5.3.3", tmp_path)
    out = tmp_path / "out"
    summary = run(rebuild, str(store), str(out))
    line = "  found     segments of 8 KiB, queue files of 100 bytes: by their size"
    assert line in summary.details()
    assert line not in summary.text().splitlines()
    told = json.loads((out / "manifest.json").read_text())["discovered"]
    assert told[SEGMENT] == {"value": 8192, "by": "by their size"}
    assert told["maxIndexNum"] == {"value": 20, "by": "by their length and first entry"}
    assert told["rocketmq"]["value"] == "5.3.4"
    again = run(verify, str(store), against=str(out))
    assert again.same
    assert again.discovered["rocketmq"]["by"] == f"by {out}/manifest.json"
    manifest = json.loads((out / "manifest.json").read_text())
    manifest["told"] = manifest.pop("discovered")  # as versions before wrote it
    (out / "manifest.json").write_text(json.dumps(manifest))
    assert run(verify, str(store), against=str(out)).same
    store = as_left("small_all_5.3.3", tmp_path / "1")
    assert main(["deliver-delayed", str(store), "--until", "2023-01-01", "--dry-run"]) == 1
    errors = capsys.readouterr().err
    assert "reput: as RocketMQ 5.3.4 would: 5.1.0 to 5.3.4 write the same\n" in errors


def test_a_log_alone_tells_no_release_and_nobody_tells_the_rest(tmp_path: Path) -> None:
    golden = golden_stores.unpack("small_all_5.3.3")
    with pytest.raises(UnknownRelease) as asked:
        discover(StoreAt(LOCAL, str(golden.input)), LOOK)
    assert str(asked.value) == (
        "Which RocketMQ release should this store follow? Its files don't say: it may be "
        "any from 4.1.0-incubating to 5.5.1. Example: --rocketmq 5.3.3 (`reput help releases` says "
        "what differs)"
    )
    found = discover(StoreAt(LOCAL, str(golden.input), "v5.3.3", {}), LOOK)
    assert found.release == "5.3.3"
    lines = discovered_lines(found.as_json())
    assert lines[0] == "segments of 8 KiB: by their size"
    assert lines[1].startswith("queue files of 6,000,000 bytes, index files of 5,000,000 slots")
    assert lines[1].endswith("RocketMQ's default, as no file of the store shows another")


def test_check_asks_for_no_release_and_says_which_one_a_store_looks_like(tmp_path: Path) -> None:
    store = tmp_path / "alone"  # with no derived file nothing is compared
    golden_stores.copy_input(golden_stores.unpack("small_all_5.3.3"), store)
    assert run(check, str(store)).sound
    store = as_left("small_all_5.3.3", tmp_path / "1")
    found = run(check, str(store), rocketmq="5.5.0")
    assert (found.sound, found.looks_like) == (False, "5.3.4")
    assert "this looks like 5.3.4, not 5.5.0" in text(found)
    assert "NOT sound" not in text(found)
    queue = next((store / "consumequeue/Topic0").glob("*/*"))
    queue.write_bytes(b"\1" + queue.read_bytes()[1:])
    found = run(check, str(store), rocketmq="5.5.0")  # no release explains that
    assert (found.sound, found.looks_like) == (False, "")
    assert "NOT sound" in text(found)


def test_an_unreadable_log_is_called_that(tmp_path: Path, monkeypatch) -> None:
    store = golden_stores.copy_input(golden_stores.unpack("small_all_5.3.3"), tmp_path / "store")
    opened = os.open

    def refused(path: Any, *more: Any, **named: Any) -> int:
        if "/commitlog/" in str(path):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        return opened(path, *more, **named)

    monkeypatch.setattr(os, "open", refused)
    with pytest.raises(StoreError, match=r"commitlog/0+: cannot be opened: Permission den"):
        discover(StoreAt(LOCAL, str(store)), LOOK)


def test_a_release_as_people_write_it() -> None:
    for rocketmq, wanted in [("5.3", "5.3.4"), ("v5.3.3", "5.3.3"), ("4.1", "4.1.0-incubating"),
        ("4.1.0", "4.1.0-incubating"), ("rocketmq-all-4.9.7", "4.9.7"),
        (" 5.0 ", "5.0.0")]:  # fmt: skip
        assert release_named(rocketmq) == wanted
    for rocketmq, near in [("5.3.9", "5.3."), ("4.9.70", "4.9.7")]:
        with pytest.raises(UnknownRelease, match=rf"did you mean {near}"):
            release_named(rocketmq)


# --- options and evidence
def test_an_option_agrees_with_the_files_or_is_refused(tmp_path: Path) -> None:
    for name, value, shown in [(SEGMENT, "16384", "8192"),
        ("mapedFileSizeCommitLog", "1073741824", "8192"), (QUEUE, "6000000", "100"),
        ("maxHashSlotNum", "8", "7"), ("maxIndexNum", "21", "20")]:  # fmt: skip
        store = as_left("small_all_5.3.3", tmp_path)
        with pytest.raises(SizeDisagrees) as refused:
            discovered(store, **{name: value})
        assert value in str(refused.value)
        assert f"={shown}" in str(refused.value)
    assert discovered(store, **SMALL).found == {}
    older = {"mapedFileSizeCommitLog": "8192", "mapedFileSizeConsumeQueue": "95"}  # rounded up
    assert set(discovered(store, **older).found) == {"maxHashSlotNum", "maxIndexNum"}


def test_damaged_or_hostile_files_tell_nothing_in_silence(tmp_path: Path) -> None:
    store = as_left("small_crc_5.4.0", tmp_path)
    os.truncate(sorted((store / "commitlog").iterdir())[0], 5000)
    queue = sorted((store / "consumequeue/SCHEDULE_TOPIC_XXXX").glob("*/*"))[0]
    os.truncate(queue, 60)
    found = discovered(store, "5.4.0")
    assert (found.settings[SEGMENT], found.settings[QUEUE]) == ("8192", "100")
    found = run(check, str(store), rocketmq="5.4.0")
    assert "has 5000 bytes, but mappedFileSizeCommitLog is 8192" in text(found)
    assert any(each.path == str(queue) for each in found.differences)
    store = as_left("small_all_5.3.3", tmp_path / "1")
    shutil.rmtree(store / "consumequeue")
    for number in range(2):
        queue = store / f"consumequeue/T/{number}"
        queue.mkdir(parents=True)
        (queue / f"{0:020d}").touch()
        os.truncate(queue / f"{0:020d}", 200_000_000)
    with pytest.raises(SettingError, match=f"more than 16 times .* give --set {QUEUE}=200000000"):
        discovered(store)
    assert discovered(store, **{QUEUE: "200000000"}).found.keys() == {
        SEGMENT, "maxHashSlotNum", "maxIndexNum"}  # fmt: skip
    store = as_left("small_all_5.3.3", tmp_path / "2")
    for path in (store / "index").iterdir():
        write_over(path, 16, b"\x7f" * 16)  # beginPhyOffset, endPhyOffset
    found = discovered(store)
    assert "no entry that would show maxHashSlotNum and maxIndexNum" in found.warnings[0]
    assert discovered(store, maxHashSlotNum="7", maxIndexNum="20").warnings == []


def test_a_part_of_a_segment_or_one_of_no_shown_size_is_refused(tmp_path: Path) -> None:
    store = as_left("tiny_5.3.3", tmp_path)
    os.truncate(next((store / "commitlog").iterdir()), 16384)
    found = discovered(store)
    assert "it is a part of a larger segment" in found.torn
    assert found.warnings == [found.torn]
    with pytest.raises(StoreError, match="a part of a larger segment"):
        run(recover, str(store), rocketmq="5.3.3")
    assert discovered(store, **{SEGMENT: "262144"}).torn == ""
    # `repair` guessed 1 GiB for a store of 16 MiB, and said to start a broker on it.
    store = as_left("tiny_5.3.3", tmp_path / "1")
    first, *others = sorted((store / "commitlog").iterdir())
    for other in others:
        other.unlink()
    os.truncate(first, 5001)
    found = discovered(store)
    assert "8192 (8 KiB), 16384 (16 KiB)" in found.torn
    assert "its broker.conf does: --broker-conf FILE" in found.torn
    for command, more in ((repair, {"output": str(tmp_path / "1" / "copy")}), (recover, {})):
        with pytest.raises(StoreError, match="no file shows how long"):
            run(command, str(store), rocketmq="5.3.3", **more)
    assert not discovered(store, **{SEGMENT: "262144"}).torn


# --- a broker's configuration
def test_the_configuration_in_a_store_is_obeyed_and_shown_or_refused(tmp_path: Path) -> None:
    store = as_left("small_all_5.3.3", tmp_path)
    conf = store / "config/broker.properties"
    conf.parent.mkdir(exist_ok=True)
    conf.write_text("messageDelayLevel=1s 2s\nmapedFileSizeCommitLog=1073741824\nbrokerName=b\n"
        "storePathCommitLog=/elsewhere\nmaxIndexNum=7 \nnoSuchSetting=1\n")  # fmt: skip
    found = discovered(store)
    assert found.found["messageDelayLevel"] == ("1s 2s", f"by {conf}")
    assert found.settings[SEGMENT] == "8192"
    assert "storePathCommitLog" not in found.settings
    assert any(f"{SEGMENT}=1073741824, but the store's files say 8192" in w for w in found.warnings)
    assert any("maxIndexNum='7 '" in warning for warning in found.warnings)
    assert discovered(store, messageDelayLevel="5s").settings["messageDelayLevel"] == "5s"
    store = as_left("small_all_5.3.3", tmp_path / "1")
    (store / "broker.conf").write_text("storeType=defaultRocksDB\n")
    built = run(rebuild, str(store), str(tmp_path / "1" / "out"), rocketmq="5.3.3")
    assert built.queues_in == "rocksdb"
    with pytest.raises(SettingError, match="reput does not build queues in RocksDB but by"):
        catch_up(str(store))


# --- append
def test_append_asks_for_a_release_that_the_files_do_not_tell(tmp_path: Path) -> None:
    store = as_left("small_all_4.9.7", tmp_path / "1")
    with pytest.raises(UnknownRelease, match=r"4\.9\.8, 5\.0\.0 or 5\.1\.0 to 5"):
        open_writer(str(store))
    shutil.rmtree(store)
    store = as_left("small_all_5.3.3", tmp_path / "1")
    with open_writer(str(store), rocketmq="v5.3.3") as writer:
        assert writer.profile.release == "5.3.3"
        assert writer.sizes_found[SEGMENT] == 8192
