"""`reput rebuild`: what may not be asked for together, and a lost end."""

from typing import Any

import pytest

from reput.jobs.outputs.report import Summary
from reput.jobs.rebuild import SALVAGE, TRUNCATE, rebuild
from reput.store_format.faults import StoreError
from reput.store_format.release.settings import SettingError
from tests.broker.change.equal_records import SETTINGS, in_turns
from tests.built import T0, Built
from tests.in_process import Session, as_text
from tests.memory_storage import MemoryStorage


def stored() -> MemoryStorage:
    log = in_turns(20).segments
    return MemoryStorage({f"store/commitlog/{start:020d}": data for start, data in log.items()})


def run(storage: MemoryStorage, **more: Any) -> Summary:
    return rebuild(
        Session(), "store", "set", rocketmq="5.3.3", settings=as_text(SETTINGS), storage=storage,
        **more)  # fmt: skip


def made(storage: MemoryStorage) -> set[str]:
    return {path.split("/")[1] for path in storage.files if path.startswith("set/")}


@pytest.mark.parametrize("index", ["of this log", "of an older log", "none"])
def test_a_log_whose_last_segment_is_gone_is_said_by_its_index(index: str) -> None:
    built = Built().put(count=40, keys="k").derive()
    storage = built.storage("store")
    del storage.files[max(path for path in storage.files if "/commitlog/" in path)]
    for path in [path for path in storage.files if "/index/" in path]:
        if index == "none":
            del storage.files[path]
        elif index == "of an older log":  # endTimestamp
            raw = storage.files[path]
            storage.files[path] = raw[:8] + (T0 - 1).to_bytes(8, "big") + raw[16:]
    told = rebuild(Session(), "store", "set", rocketmq="5.3.3", settings=built.given(),
                   storage=storage)  # fmt: skip
    assert [line[:17] for line in told.left_out] == ["messages up to 4,"] * (index == "of this log")


@pytest.mark.parametrize(("words", "why"), [
    ({"assume_names": True}, "--assume-names: only with --on-damage salvage"),
    ({"assume_names": True, "on_damage": TRUNCATE}, "--assume-names: only with"),
    ({"index": "rocksdb", "on_damage": SALVAGE}, "--index rocksdb")])  # fmt: skip
def test_what_cannot_go_together_is_refused_before_anything_is_made(words, why) -> None:
    storage = stored()
    with pytest.raises((SettingError, StoreError), match=why):
        run(storage, **words)
    assert made(storage) == set()


def test_only_a_rebuilt_set_is_replaced_and_where_that_is_wanted() -> None:
    storage = stored()
    storage.files["set/letters"] = b"mine"
    for replace in (False, True):
        with pytest.raises(StoreError):
            run(storage, replace=replace)
    assert storage.files["set/letters"] == b"mine"
    storage = stored()
    run(storage)
    with pytest.raises(StoreError):
        run(storage)
    run(storage, replace=True)
    assert made(storage) >= {"consumequeue", "index"}
