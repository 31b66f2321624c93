"""RocketMQ goes on after a catch-up, and a catch-up after RocketMQ, three rounds: the same bytes.

The log grows under RocketMQ; queues, index and checkpoint stay those of before, as if the log had
been copied in. What reput makes of it is what RocketMQ itself made."""

import shutil
import signal
from collections import Counter
from collections.abc import Iterator
from functools import partial
from itertools import count
from pathlib import Path

import pytest

from reput import catch_up
from reput.store_format.layouts import INDEX_HEADER
from tests.broker.writer.stores import stored_records
from tests.faults.killing import killed_at
from tests.in_process import as_text
from tests.rocketmq.driver import Driver, remove_derived
from tests.rocketmq.puts import SIZES, assert_same, derived, put

pytestmark = [pytest.mark.rocketmq]
VERSIONS = [pytest.param("4.9.7", marks=pytest.mark.long), "5.3.3",
            pytest.param("5.5.0", marks=pytest.mark.long)]  # fmt: skip
DERIVED = ("consumequeue", "index", "checkpoint")


@pytest.fixture(scope="module", params=VERSIONS)
def driver(request: pytest.FixtureRequest) -> Iterator[Driver]:
    with Driver(request.param) as running:
        yield running


def with_derived_of(store: Path, older: Path, to: Path) -> Path:
    """A store with the log of `store` and the derived files of `older`."""
    shutil.copytree(store, to)
    for name in DERIVED:
        path = to / name
        shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
        if (older / name).is_dir():
            shutil.copytree(older / name, path)
        elif (older / name).exists():
            shutil.copy2(older / name, path)
    return to


def test_three_rounds_of_rocketmq_and_catch_up(driver: Driver, tmp_path: Path) -> None:
    store, settings = tmp_path / "0", as_text(SIZES)
    put(driver, store, 60)
    for number in range(1, 4):
        before = tmp_path / f"before-{number}"
        shutil.copytree(store, before)
        put(driver, store, 90 + 37 * number)
        ours = with_derived_of(store, before, tmp_path / str(number))
        about = catch_up(str(ours), rocketmq=driver.version, settings=settings)
        assert about.done
        assert about.entries >= 90 + 37 * number
        assert_same(derived(ours), derived(store))

        caught_up = derived(ours)
        answer = driver.open_check(ours, SIZES)
        assert answer["dispatched"] == 0
        assert_same(derived(ours), caught_up)
        store = ours
    records = list(stored_records(store / "commitlog"))
    assert len(records) == 60 + sum(90 + 37 * n for n in range(1, 4))


@pytest.mark.long
def test_rocketmq_goes_on_after_a_killed_catch_up(driver: Driver, tmp_path: Path) -> None:
    """Whatever a kill leaves: RocketMQ's recovery, and the next catch-up, make the same files.

    A kill before `abort` leaves queues that end before a log without `abort`. RocketMQ does not
    bring all of that back by itself (from 5.0.0 on recoverNormally leaves out the record where the
    queues end): then it makes of the store what it makes of one that no catch-up has touched.

    A kill behind the change of `index/` leaves all keys there, and the mark on its last file
    (broker/writer/index_folder.py): endPhyOffset is one more than the last message's place.
    RocketMQ's recovery dispatches every message again, skips in the index what lies before
    endPhyOffset (IndexService.buildIndex), and so writes nothing there: the mark stays until the
    next message comes."""
    # few index files: RocketMQ names them by the millisecond, and in a recovery fills one of 200
    # keys in less, so that the next one takes its name and place
    sizes = SIZES | {"maxIndexNum": 600}
    store, settings = tmp_path / "store", as_text(sizes)
    put(driver, store, 60, sizes)
    before = tmp_path / "before"
    shutil.copytree(store, before)
    put(driver, store, 300, sizes)
    wanted = derived(store)
    last = max(name for name in wanted if name.startswith("index/"))
    with_mark = wanted | {last: marked(wanted[last])}
    untouched = with_derived_of(store, before, tmp_path / "untouched")
    driver.open_check(untouched, sizes)
    alone = derived(untouched)
    states = Counter[str]()
    places = (with_derived_of(store, before, tmp_path / f"killed-{n}") for n in count())
    for ours in killed(places, driver.version, settings):
        again = tmp_path / f"{ours.name}-again"
        shutil.copytree(ours, again)
        catch_up(str(again), rocketmq=driver.version, settings=settings)
        assert_same(derived(again), wanted)

        recovers = (ours / "abort").exists()
        has_all_keys = derived(ours).get(last) == with_mark[last]
        driver.open_check(ours, sizes)
        if has_all_keys:
            assert_same(derived(ours), with_mark)
            if not states["marked"]:
                every_key_is_there_once(driver, ours, sizes)
            states["marked"] += 1
        elif recovers:
            assert_same(derived(ours), wanted)
            states["recovered"] += 1
        elif derived(ours) != alone:
            assert_same(derived(ours), wanted)
            states["done"] += 1
    assert states["marked"]
    assert states["recovered"]
    assert states["done"] or alone == wanted


def marked(index_file: bytes) -> bytes:
    """The index file with the mark: one more in the header's endPhyOffset."""
    at, raw = INDEX_HEADER.fields["endPhyOffset"][1], bytearray(index_file)
    end = int.from_bytes(raw[at : at + 8])
    raw[at : at + 8] = (end + 1).to_bytes(8)
    return bytes(raw)


def every_key_is_there_once(driver: Driver, store: Path, sizes: dict[str, int]) -> None:
    """When RocketMQ has gone on, its files are those that it derives from the log alone."""
    put(driver, store, 40, sizes)
    anew = store.with_name(f"{store.name}-anew")
    shutil.copytree(store, anew)
    remove_derived(anew)
    driver.derive(anew, sizes)
    assert_same(derived(store), derived(anew))


def killed(stores: Iterator[Path], version: str, settings: dict[str, str]) -> Iterator[Path]:
    """Stores in which a catch-up was killed, at one step after the other."""
    for number, store in enumerate(stores):
        _, code = killed_at(
            number, partial(catch_up, str(store), rocketmq=version, settings=settings)
        )
        if code == 0:
            return
        assert code == -signal.SIGKILL
        yield store
