"""What a set's queues and index are made as: as asked for, else as the store has them."""

from pathlib import Path

import pytest

from reput.jobs.opening.plan import Plan, kind_of_index, kind_of_queues, make_plan, refuse_rocksdb
from reput.store_format.discover.purpose import CHECK, REBUILD, Purpose
from reput.store_format.discover.store import StoreAt, discover
from reput.store_format.faults import StoreError
from reput.store_format.files.folder import Folder
from reput.store_format.files.local import LocalStorage
from reput.store_format.release.settings import SettingError
from tests.in_process import STORE, as_text
from tests.logs import build_log
from tests.logs.small import SEGMENT, SETTINGS, messages
from tests.memory_storage import MemoryStorage
from tests.store_format.rocksdb.stores import unpack

FILES = f"consumequeue/T/0/{0:020d}"
ROCKSDB, OTHER_ROCKSDB = "consumequeue/CURRENT", "consumequeue_rocksdb/CURRENT"


def plan(*there: str, purpose: Purpose = REBUILD, **given: str) -> Plan:
    log = build_log(messages(3), SEGMENT)
    files = {f"{STORE}/commitlog/{at:020d}": raw for at, raw in log.items()}
    storage = MemoryStorage(files | {f"{STORE}/{path}": b"x" for path in there})
    at = StoreAt(storage, STORE, "5.5.1", as_text({**SETTINGS, **given}))
    return make_plan(at, discover(at, purpose), purpose)


TABLE, APART = "consumequeue/000009.sst", "useSeparateStorePathForRocksdbCQ"
SELECTIVE, PREFERS = "rocksdbCQSelectiveDoubleWriteEnable", "combineCQPreferCQType"


@pytest.mark.parametrize(
    ("there", "given", "todo"),
    [
        ((ROCKSDB, TABLE), {"storeType": "defaultRocksDB", APART: "true"}, f"set {APART}=false"),
        ((OTHER_ROCKSDB,), {"storeType": "defaultRocksDB", APART: "false"}, f"set {APART}=true"),
        ((OTHER_ROCKSDB,), {"storeType": "defaultRocksDB", APART: "true"}, ""),
        ((ROCKSDB, TABLE), {"storeType": "defaultRocksDB", APART: "false"}, ""),
        ((ROCKSDB, TABLE), {"storeType": "defaultRocksDB"}, ""),
        ((ROCKSDB, TABLE), {"storeType": "default"}, "set storeType=defaultRocksDB"),
        ((ROCKSDB, TABLE), {"storeType": "default", "rocksdbCQDoubleWriteEnable": "true"}, ""),
        ((ROCKSDB, TABLE, FILES), {"storeType": "default"}, ""),
        ((ROCKSDB,), {"storeType": "default"}, ""),  # a broker that only opened one
        ((ROCKSDB, TABLE), {}, ""),
        ((FILES,), {SELECTIVE: "true", PREFERS: "defaultRocksDB"}, f"set {PREFERS}=default"),
        ((FILES,), {SELECTIVE: "true"}, ""),
    ],
)
def test_rows_that_a_broker_refuses_or_does_not_read_are_named(
    there: tuple[str, ...], given: dict[str, str], todo: str
) -> None:
    found = plan(*there, purpose=CHECK, **given).findings
    assert [each.todo for each in found] == ([todo] if todo else [])


@pytest.mark.parametrize(
    ("there", "store_type", "kind"),
    [
        ((), "default", "files"),
        ((), "defaultRocksDB", "rocksdb"),
        ((FILES,), "default", "files"),
        ((ROCKSDB,), "default", "rocksdb"),
        ((OTHER_ROCKSDB,), "default", "rocksdb"),
        ((FILES, ROCKSDB), "defaultRocksDB", "rocksdb"),
    ],
)
def test_queues_are_made_as_the_store_has_them(
    there: tuple[str, ...], store_type: str, kind: str
) -> None:
    found = plan(*there, storeType=store_type)
    assert kind_of_queues(found, None, "out") == kind
    for asked in ("files", "rocksdb"):
        assert kind_of_queues(found, asked, "out") == asked


def test_of_both_the_caller_or_the_user_says_which() -> None:
    both = plan(FILES, ROCKSDB)
    with pytest.raises(SettingError, match="--queues files, or --queues rocksdb"):
        kind_of_queues(both, None, "out")
    assert kind_of_queues(both, None, "out", of_both="files") == "files"
    assert kind_of_queues(both, "rocksdb", "out", of_both="files") == "rocksdb"


def test_no_other_kind_and_no_other_type_of_store_is_known() -> None:
    with pytest.raises(SettingError, match="queues=leveldb: there are files and rocksdb"):
        kind_of_queues(plan(), "leveldb", "out")
    with pytest.raises(SettingError, match="index=Files: there are files and rocksdb"):
        kind_of_index(plan(), "Files", "out")
    with pytest.raises(SettingError, match="there are default and defaultRocksDB"):
        kind_of_queues(plan(storeType="tiered"), None, "out")


@pytest.mark.parametrize(
    ("rocksdb", "files", "kind"),
    [("true", "false", "rocksdb"), ("true", "true", "files"), ("false", "false", "files"),
     ("false", "true", "files")],
)  # fmt: skip
def test_an_index_is_in_rocksdb_where_that_is_its_only_place(
    rocksdb: str, files: str, kind: str
) -> None:
    found = plan(indexRocksDBEnable=rocksdb, indexFileWriteEnable=files)
    assert kind_of_index(found, None, "out") == kind
    assert kind_of_index(found, "files", "out") == "files"
    assert kind_of_index(found, "rocksdb", "out") == "rocksdb"


def test_a_command_that_changes_no_rocksdb_says_how_far_its_queues_go(tmp_path: Path) -> None:
    store, _ = unpack("alone_5.5.0", tmp_path)
    with pytest.raises(StoreError, match=r"its queues hold the log up to [\d,]+; a broker"):
        refuse_rocksdb(Folder(LocalStorage(), str(store)))
    (store / "consumequeue" / "CURRENT").write_bytes(b"no such file\n")
    refuse_rocksdb(Folder(LocalStorage(), str(store)))
    refuse_rocksdb(Folder(LocalStorage(), str(tmp_path)))
