"""The table of purposes: for each row, what one store of each kind gives."""

import os
from contextlib import nullcontext
from pathlib import Path

import pytest

from reput.jobs.opening.plan import make_plan
from reput.store_format.discover import purpose
from reput.store_format.discover.purpose import Faults, Purpose, Unknown
from reput.store_format.discover.store import StoreAt, discover
from reput.store_format.faults import SALVAGE, StoreError
from reput.store_format.files.local import LocalStorage
from reput.store_format.release.profiles import RELEASES, UnknownRelease
from reput.store_format.release.setting_table import SettingError
from tests.built import write_log
from tests.golden_stores import as_left
from tests.in_process import STORE
from tests.logs import small
from tests.logs.encoder import build_log
from tests.store_format.discover.delayed import DAY, delayed
from tests.store_format.rocksdb.stores import unpack

PURPOSES = {name: each for name, each in vars(purpose).items()
            if isinstance(each, Purpose) and not name.startswith("_")}  # fmt: skip
rows = pytest.mark.parametrize("name", PURPOSES)
LOCAL = LocalStorage()


def opened(at: StoreAt, row: Purpose, *, refused: bool, match: str) -> None:
    """Discover and plan for a row, and see whether the store is refused in these words."""
    if not refused:
        assert make_plan(at, discover(at, row), row).segments
        return
    with pytest.raises((StoreError, SettingError), match=match):
        make_plan(at, discover(at, row), row)


@rows
def test_what_a_store_of_each_kind_gives(name: str, tmp_path: Path) -> None:
    at = StoreAt(LOCAL, str(unpack("alone_5.2.0", tmp_path)[0]), "5.2.0", {"storeType": "default"})
    row = PURPOSES[name].asked(SALVAGE)
    opened(at, row, refused=not row.rocksdb, match="which this command does not change")
    log = build_log(small.messages(), small.SEGMENT)
    del log[small.SEGMENT]
    store = write_log(tmp_path / "1" / "store", log)
    at, row = StoreAt(LOCAL, str(store), "5.3.3", small.SETTINGS), PURPOSES[name]
    maps = row.faults in (Faults.MAP, Faults.AS_ASKED)
    opened(at, row.asked(SALVAGE), refused=not maps, match="commitlog")
    opened(at, row.asked("refuse"), refused=row.faults is not Faults.MAP, match="commitlog")
    at = StoreAt(LOCAL, str(as_left("small_all_5.3.3", tmp_path / "2")), "4.9.7")
    opened(at, PURPOSES[name], refused=PURPOSES[name].agrees, match="leave --rocketmq out")
    at = StoreAt(delayed(DAY), STORE, "5.3.3", {"messageDelayLevel": "1s"})
    row = PURPOSES[name]
    with pytest.raises(SettingError) if row.due_times else nullcontext():
        discover(at, row)
    store = as_left("tiny_5.3.3", tmp_path / "4")
    os.truncate(next((store / "commitlog").iterdir()), 16384)
    at, row = StoreAt(LOCAL, str(store), "5.3.3"), PURPOSES[name]
    with pytest.raises(StoreError, match="a part of a larger") if row.sizes else nullcontext():
        discover(at, row)
    store = write_log(tmp_path / "5" / "store", build_log(small.messages(3), small.SEGMENT))
    at, row = StoreAt(LOCAL, str(store), None, small.SETTINGS), PURPOSES[name]
    if row.unknown is Unknown.ASK:
        with pytest.raises(UnknownRelease):
            discover(at, row)
    else:
        assert discover(at, row).release == RELEASES[-1]
