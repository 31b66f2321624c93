"""Stores whose queues, or some of them, reput does not build are known by their files."""

from collections.abc import Callable

import pytest

from reput.store_format.faults import StoreError
from reput.store_format.names import holds_rows, refuse_foreign


def folders(**names: list[str]) -> Callable[[str], list[str]]:
    return lambda folder: names.get(folder, [])


def test_plain_queues_are_taken() -> None:
    refuse_foreign("s", folders())
    refuse_foreign("s", folders(consumequeue=["TopicA", "current", "CURRENT.bak"]))


@pytest.mark.parametrize("even_rocksdb", [False, True])
@pytest.mark.parametrize(
    ("store", "named"), [("s", "s/consumequeue_ext"), ("", "consumequeue_ext")]
)
def test_queues_with_ext_files_are_always_refused(
    even_rocksdb: bool, store: str, named: str
) -> None:
    with pytest.raises(StoreError, match=f"^{named}: .*enableConsumeQueueExt"):
        refuse_foreign(store, folders(consumequeue_ext=["TopicA"]), even_rocksdb)


@pytest.mark.parametrize("folder", ["consumequeue", "consumequeue_rocksdb"])
def test_queues_in_rocksdb_are_refused_where_files_would_be_replaced(folder: str) -> None:
    names = folders(**{folder: ["000004.log", "CURRENT", "TopicA"]})
    with pytest.raises(StoreError, match=f"^s/{folder}/CURRENT: .*storeType"):
        refuse_foreign("s", names)
    refuse_foreign("s", names, even_rocksdb=True)


@pytest.mark.parametrize(
    ("files", "rows"),
    [
        ([], False),
        ([("CURRENT", 16), ("MANIFEST-000005", 200), ("LOG", 40_000)], False),
        ([("000004.log", 0)], False),  # opened, and nothing put
        ([("000004.log", 1)], True),
        ([("000009.sst", 0)], True),
        ([("000004.log", 0), ("000009.sst", 900), ("000010.log", 0)], True),
    ],
)
def test_a_database_has_rows_in_tables_or_in_its_write_ahead_log(
    files: list[tuple[str, int]], rows: bool
) -> None:
    assert holds_rows(files) == rows
