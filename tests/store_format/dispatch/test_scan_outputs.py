"""What a scan gives while its outputs are full again and again is what large ones give at once."""

import pytest

from reput.store_format.dispatch import scan as scan_module
from reput.udfs.rebuild import scan as task_module
from tests.store_format.dispatch.scanned import SEGMENT, log_of, outcome

LARGE = 1 << 20


@pytest.mark.parametrize(
    ("index_puts", "queue_puts"), [(100, LARGE), (LARGE, 100), (100, 100), (300, 101)]
)
def test_outputs_that_fill_up_lose_nothing(index_puts: int, queue_puts: int, monkeypatch) -> None:
    segment = log_of(700)
    puts, entries, end, given = outcome(segment, LARGE)
    assert (end.records, len(puts), given) == (700, 1400, 2)
    monkeypatch.setattr(scan_module, "INDEX_PUTS", index_puts)
    again = outcome(segment, queue_puts)
    assert again[:2] == (puts, entries)
    assert again[2] == end
    assert again[3] > 5


def test_a_workers_buffers_have_the_window_that_its_storage_wants() -> None:
    first = task_module.scan_buffers(SEGMENT, 1 << 16)
    assert task_module.scan_buffers(SEGMENT, 1 << 16) is first
    assert len(first.window) == 1 << 16
    assert len(task_module.scan_buffers(SEGMENT, 1 << 17).window) == 1 << 17
