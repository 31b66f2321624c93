"""The store's own index files as witnesses: a record that they contradict is named, once."""

import pytest

from reput.jobs.pipeline.pipeline import Pipeline
from reput.jobs.salvaging.damage_map import DamageMap
from reput.jobs.salvaging.damage_search import index_contradictions, map_damage
from reput.store_format.damage.ranges import Damage, DamageKind
from reput.store_format.discover.purpose import REPLICATE
from reput.store_format.faults import Fault
from tests.damaged import START, Damaged, damaged
from tests.in_process import STORE, storage_of
from tests.jobs.found import found, job_of
from tests.logs.encoder import Message, properties
from tests.store_format.damage.generator import derived_of

TIME = 61  # a byte of storeTimestamp: a bit in it is 65,536 ms and more


def keyed() -> Damaged:
    return damaged(
        [
            Message("T", 0, n, b"body", properties(("KEYS", f"k{n}")), START + 1000 * n)
            for n in range(40)
        ],
        1 << 16,
    )  # fmt: skip


@pytest.fixture(scope="module")
def index() -> dict[str, bytes]:
    return {path: raw for path, raw in derived_of(keyed().log).items() if "/index/" in path}


def asked(log: Damaged, index: dict[str, bytes]) -> tuple[Pipeline, DamageMap]:
    storage = storage_of(log.log)
    storage.files |= index
    job = job_of(found(log.log, storage, purpose=REPLICATE))
    return job, map_damage(job)


def content(log: Damaged, number: int, fault: Fault) -> Damage:
    place, size = log.places[number], log.size(number)
    return Damage(place, place + size, DamageKind.CONTENT, fault, size, None, "record")


def test_a_sound_log_is_contradicted_by_nothing(index: dict[str, bytes]) -> None:
    assert index_contradictions(*asked(keyed(), index)) == []


def test_a_changed_key_and_a_changed_second_are_named_in_the_logs_order(
    index: dict[str, bytes],
) -> None:
    log = keyed()
    log.flip(20, TIME)
    log.flip(9, log.size(9) - 2)  # its key's last digit
    wanted = [content(log, 9, Fault.KEYS), content(log, 20, Fault.STORED)]
    assert index_contradictions(*asked(log, index)) == wanted


def test_a_record_that_a_range_names_already_is_not_named_again(index: dict[str, bytes]) -> None:
    log = keyed()
    log.flip(9, log.size(9) - 2)
    log.flip(30, 5)  # magic: the log is damaged, and its index was asked
    job, found_map = asked(log, index)
    assert content(log, 9, Fault.KEYS) in found_map.ranges
    assert index_contradictions(job, found_map) == []


def test_nothing_is_asked_where_there_is_no_index_or_the_settings_want_none(
    index: dict[str, bytes],
) -> None:
    log = keyed()
    log.flip(9, log.size(9) - 2)
    assert index_contradictions(*asked(log, {})) == []
    log.settings["messageIndexEnable"] = False
    assert index_contradictions(*asked(log, index)) == []


def test_a_foreign_file_among_them_is_none_of_them(index: dict[str, bytes]) -> None:
    log = keyed()
    log.flip(9, log.size(9) - 2)
    foreign = {f"{STORE}/index/notes.txt": b"mine"}
    found = index_contradictions(*asked(log, {**index, **foreign}))
    assert found == index_contradictions(*asked(log, index))
    assert found
