"""Swapped and renamed segments: known by their records, and read in the order that these prove."""

import pytest

from reput.jobs.check import check
from reput.jobs.rebuild import REFUSE, SALVAGE
from reput.jobs.repair import repair
from reput.store_format.faults import DamageFound
from reput.store_format.release.settings import SettingError
from tests.built import Built
from tests.in_process import OUTPUT, STORE, Session, as_text, rebuild_log, run, storage_of
from tests.memory_storage import MemoryStorage
from tests.store_format.damage.generator import Hurt, generate


@pytest.fixture
def hurt() -> Hurt:
    return generate("swapped segments", 0, crc=False, count=600)


def reported(hurt: Hurt) -> dict[str, object]:
    return {"rocketmq": hurt.log.version, "settings": as_text(hurt.log.settings)}


def derived(storage: MemoryStorage) -> dict[str, bytes]:
    start = f"{OUTPUT}/consumequeue/"
    return {p.removeprefix(start): c for p, c in storage.files.items() if p.startswith(start)}


def wanted(hurt: Hurt) -> dict[str, bytes]:
    files = rebuild_log(hurt.log.log._replace(segments=hurt.whole)).files
    start = "consumequeue/"
    return {p.removeprefix(start): c for p, c in files.items() if p.startswith(start)}


def test_check_offers_the_order_and_salvage_reads_it(hurt: Hurt) -> None:
    storage = storage_of(hurt.log.log)
    report = check(Session(), STORE, storage=storage, **reported(hurt))  # type: ignore[arg-type]
    again = check(
        Session(),
        STORE,
        storage=storage,
        assume_names=True,
        **reported(hurt),  # type: ignore[arg-type]
    )
    offered = [each for each in report.findings if "--assume-names reads it as" in each.reason]
    assert len(offered) == 2
    assert report.messages < 600
    assert again.messages == 600
    assert again.damage["range_count"] == 0
    assert len(report.damage["left_out"]) == 2
    assert not again.damage["left_out"]
    assert len(again.findings) == 2
    run(STORE, OUTPUT, on_damage=SALVAGE, assume_names=True, storage=storage, **reported(hurt))
    assert derived(storage) == wanted(hurt)


def test_repair_gives_the_segments_their_names(hurt: Hurt) -> None:
    storage = storage_of(hurt.log.log)
    repair(
        Session(),
        STORE,
        OUTPUT,
        assume_names=True,
        storage=storage,
        **reported(hurt),  # type: ignore[arg-type]
    )
    for start, raw in hurt.whole.items():
        assert storage.files[f"{OUTPUT}/commitlog/{start:020d}"] == raw
    assert derived(storage) == wanted(hurt)


def test_the_last_two_swapped_are_no_torn_end() -> None:
    """Nothing live follows where the log breaks, as no record there stands in its own place."""
    log = Built().put(count=40, keys="k").log()
    *_, before, last = sorted(log.segments)
    log.segments[before], log.segments[last] = (
        log.segments[last].ljust(2048, b"\0"),
        log.segments[before],
    )
    with pytest.raises(DamageFound, match=f"by its records it is segment {last:020}"):
        rebuild_log(log, on_damage=REFUSE)
    assert rebuild_log(log).summary.messages < 40


def test_only_salvage_reads_another_order(hurt: Hurt) -> None:
    storage = storage_of(hurt.log.log)
    with pytest.raises(SettingError, match="--assume-names"):
        run(STORE, OUTPUT, on_damage=REFUSE, assume_names=True, storage=storage, **reported(hurt))


def test_where_two_files_say_the_same_place_neither_moves(hurt: Hurt) -> None:
    first, second = sorted(hurt.log.segments)[:2]
    hurt.log.segments[second] = hurt.log.segments[first]
    storage = storage_of(hurt.log.log)
    report = check(
        Session(),
        STORE,
        storage=storage,
        assume_names=True,
        **reported(hurt),  # type: ignore[arg-type]
    )
    assert not any(f"{first:020d}" in each.reason for each in report.findings)
