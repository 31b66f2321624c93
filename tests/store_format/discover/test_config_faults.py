"""What a broker cannot read of its configuration is named, with what to do."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from reput.jobs.check import check
from reput.jobs.cli import main
from reput.jobs.repair import repair
from reput.store_format.discover.config_faults import config_faults
from reput.store_format.files.folder import Folder
from reput.store_format.files.local import LocalStorage
from reput.store_format.state_table import FILES
from tests import golden_stores
from tests.built import Built
from tests.damaged import SETTINGS, damaged, messages
from tests.in_process import OUTPUT, STORE, Session, as_text, run, storage_of
from tests.jobs.checking import checked
from tests.memory_storage import MemoryStorage

NULS, FOLDER = bytes(200), b"a folder"
STARTS, WITHOUT, NOT = "a broker reads", "a broker starts without", "no broker starts"


@pytest.mark.parametrize(("file", "bak", "said"), [
    (b"{}", None, ""),
    (b"{}", NULS, ""),  # it is not read
    (b'{"offsetTable":{"T@g":{0:7}},}', NULS, ""),  # fastjson takes it
    (None, None, ""), (NULS, b"{}", STARTS), (b"", b"{}", STARTS),
    (None, b"{}", ""),  # as a kill between two renames leaves it
    (b'{"offsetTable":', b"{}", STARTS), (NULS, None, WITHOUT), (b"", b"", WITHOUT),
    (b"{", None, WITHOUT), (b"null", NULS, WITHOUT), (b"  ", NULS, WITHOUT), (b"[]", NULS, WITHOUT),
    (NULS, NULS, NOT), (b"", NULS, NOT), (None, NULS, NOT)])  # fmt: skip
@pytest.mark.parametrize("name", ["topics.json", "consumerOffset.json", "timermetrics"])
def test_what_a_power_loss_leaves_of_a_file_and_what_a_broker_does(name, file, bak, said) -> None:
    """As RocketMQ 5.3.3 started, or did not, on each of these of topics.json."""
    files = {f"store/config/{name}": file, f"store/config/{name}.bak": bak}
    storage = MemoryStorage({path: raw for path, raw in files.items() if raw is not None})
    found = config_faults(Folder(storage, "store"))
    assert [said in str(each) for each in found] == [True] * bool(said)
    assert [bool(each.todo) for each in found] == [said != STARTS] * bool(said)


@pytest.mark.parametrize(
    ("bak", "said"), [(None, WITHOUT), (b"{}", STARTS), (NULS, NOT), (FOLDER, NOT)]
)
def test_a_folder_of_a_file_s_name(bak: bytes | None, said: str, tmp_path: Path) -> None:
    """A container's mount of a file that was not there makes one. So RocketMQ 5.3.3 did, too."""
    (tmp_path / "config" / "topics.json").mkdir(parents=True)
    if bak is FOLDER:
        (tmp_path / "config" / "topics.json.bak").mkdir()
    elif bak is not None:
        (tmp_path / "config" / "topics.json.bak").write_bytes(bak)
    (found,) = config_faults(Folder(LocalStorage(), str(tmp_path)))
    assert found.reason.startswith("is a folder")
    assert said in found.reason
    assert found.todo.startswith(f"restore {tmp_path}/config/topics.json")


def test_each_file_and_rocksdb_of_the_table_is_looked_at() -> None:
    # A start does not ask what QueryAssignmentProcessor and TransactionMetrics could load.
    for row in [row for row in FILES if row.holds]:
        files = {f"store/{row.path}{end}": NULS for end in ("", ".bak")}
        (found,) = config_faults(Folder(MemoryStorage(files), "store"))
        assert found.path == f"store/{row.path}"
        assert (NOT in str(found), WITHOUT in str(found)) == (row.needed, not row.needed)
    for folder in ["kvStore", "config/topics", "config/users", "config/acls"]:
        files = {f"store/{folder}/CURRENT": b"MANIFEST-000005\n",
            f"store/{folder}/000004.sst": b"x"}  # fmt: skip
        found = next(
            each for each in config_faults(Folder(MemoryStorage(files), "store")) if each.todo
        )
        assert found.path == f"store/{folder}"
        assert found.reason.endswith(": no broker that uses it starts")
        assert found.todo.startswith(f"put back a copy of store/{folder}, or move it away")
        assert config_faults(Folder(MemoryStorage(files), "store"), in_use=True) == []
    # RocketMQ 5.3.3 and 5.5.1 start without config/topics, and no topic has a route.
    for there, told in [({"topics": 0, "consumerOffsets": 0}, ["subscriptionGroups"]),
        ({"subscriptionGroups": 0, "consumerOffsets": 0}, ["topics"]),
        ({"consumerOffsets": 0, "topics.json": 0, "subscriptionGroup.json.bak": 0}, []),
        ({"consumerOffsets": 0, "metadata": 0}, []), ({"topics.json": 0}, []),
        ({"rdb": 0}, [])]:  # fmt: skip
        files = {f"store/config/{name}{'' if '.' in name else '/CURRENT'}": b"{}" for name in there}
        found = config_faults(Folder(MemoryStorage(files), "store"))
        missing = [each.path for each in found if "is missing" in each.reason]
        assert missing == [f"store/config/{name}" for name in told]


@pytest.mark.parametrize("name", ["topics.json", "consumerOffset.json", "subscriptionGroup.json"])
def test_commands_read_on_past_a_folder(name: str, tmp_path: Path, capsys: Any) -> None:
    built = Built().put("A", count=9).derive()
    store = built.write(tmp_path / "store")
    (store / "config" / name).mkdir(parents=True)
    given = [word for each in built.given().items() for word in ("--set", "=".join(each))]
    copy = ["--output", str(tmp_path / "copy")]
    for command, words, code in (("check", [], 1), ("topics", [], None), ("groups", [], None),
        ("recover", ["--dry-run"], 1), ("convert", copy, 0),
        ("repair", ["--output", f"{copy[1]}2"], 1)):  # fmt: skip
        done = main([command, str(store), *words, "--rocketmq", "5.3.3", *given])
        said = capsys.readouterr()
        assert done in ((0, 1) if code is None else (code,)), (command, said)
        if code is not None:
            assert f"{name}: is " in said.out + said.err, command


def test_commands_say_that_no_broker_starts(tmp_path: Path) -> None:
    golden = golden_stores.unpack("small_all_5.5.0")
    root = golden_stores.copy_input(golden, tmp_path / "store")
    (root / "config").mkdir(exist_ok=True)
    for name in ("topics.json", "topics.json.bak"):
        (root / "config" / name).write_bytes(NULS)
    words: dict[str, Any] = {"rocketmq": golden.version, "settings": as_text(golden.settings)}
    report = check(Session(), str(root), **words)  # type: ignore[arg-type]
    assert not report.sound
    assert report.findings[0].path == f"{root}/config/topics.json"
    assert "no broker starts" in report.findings[0].reason
    copy = repair(Session(), str(root), str(tmp_path / "copy"), **words)  # type: ignore[arg-type]
    assert copy.first.startswith(f"restore {tmp_path}/copy/config/topics.json from a backup")
    assert "start a broker on" not in copy.text()


@pytest.mark.parametrize(("sealed", "version", "deletes", "state"), [
    (0, "5.3.3", True, "NOT sound"), (20, "5.3.3", True, "NOT sound"),
    (200, "5.3.3", False, "sound"), (0, "5.1.4", False, "sound")])  # fmt: skip
def test_a_log_that_began_without_crc_properties_is_read_whatever_is_forced(
    sealed: int, version: str, deletes: bool, state: str
) -> None:
    """enabledAppendPropCRC came after its first 60 messages. Of a clean store a broker with
    forceVerifyPropCRC checks the last three segments, and deletes from the first record without
    one on: so did RocketMQ 5.3.3.
    """
    made = messages(60 + sealed)
    log = damaged([replace(m, crc_property=n >= 60) for n, m in enumerate(made)])
    log.version, log.settings = version, {**SETTINGS, "forceVerifyPropCRC": True}
    storage = storage_of(log.log)
    given: dict[str, Any] = {"rocketmq": version, "settings": as_text(log.settings)}
    made_set = run(STORE, OUTPUT, storage=storage, **given)
    for path in [path for path in storage.files if path.startswith(f"{OUTPUT}/")]:
        storage.files[path.replace(OUTPUT, STORE, 1)] = storage.files.pop(path)
    del storage.files[f"{STORE}/manifest.json"]
    report = checked(log, storage=storage)
    assert (made_set.messages, report.messages) == (60 + sealed, 60 + sealed)
    assert (report.state, bool(report.findings)) == (state, deletes)
    assert any("deletes the log" in line for line in made_set.warnings) == deletes
    repaired = repair(Session(), STORE, "copy", storage=storage, **given)
    assert (repaired.messages, repaired.damage["range_count"]) == (60 + sealed, 0)
