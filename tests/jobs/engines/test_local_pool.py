"""How tasks and rows go to a worker and come back: small, and as they were."""

import pickle

import pyarrow as pa

from reput.jobs.engines.local import _raised, packed, unpacked
from tests.jobs.engines.tasks import ROW


def rows(count: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(
        [{"key": n, "word": None if n % 3 else "w" * n, "value": -n} for n in range(count)], ROW
    )


def test_batches_come_back_as_they_were() -> None:
    for many in ([rows(3)], [rows(3), rows(0), rows(5)], [rows(0)]):
        back = list(unpacked(packed(many)))
        assert back == many
        assert all(batch.schema.equals(ROW) for batch in back)


def test_no_batches_are_no_bytes() -> None:
    assert packed([]) == b""
    assert list(unpacked(b"")) == []


def test_of_a_slice_only_its_own_rows_are_sent() -> None:
    whole = rows(2000)
    part = whole.slice(700, 2)
    assert list(unpacked(packed([part]))) == [part]
    assert len(packed([part])) < len(packed([whole])) // 100
    assert len(packed([part])) < len(pickle.dumps(part))


def test_a_file_that_went_meanwhile_is_a_changed_store() -> None:
    raised = _raised(FileNotFoundError(2, "no such file", "/a/b"))
    assert raised[:2] == ("StoreChanged", "/a/b: is gone; it was there when the work began")
