"""The checkpoint file, against a golden one and against Java's layout of longs."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reput.store_format.derived import checkpoint
from reput.store_format.release.profiles import profile
from tests import golden_stores
from tests.faults.memory_files import MemoryFiles

LONGS = st.integers(-(1 << 63), (1 << 63) - 1)


def test_a_stores_checkpoint_as_it_is_read_and_after_a_rebuild() -> None:
    for length, read in [(0, 0), (47, 0), (48, 7), (4096, 7)]:
        files = MemoryFiles()
        files.create("checkpoint").write_at(0, checkpoint.encode(checkpoint.Checkpoint(7))[:length])
        assert checkpoint.read_checkpoint(files) == checkpoint.Checkpoint(read)
        assert checkpoint.read_checkpoint(MemoryFiles()) == checkpoint.Checkpoint()
    for length in [0, 8, 47]:
        with pytest.raises(ValueError, match=f"{length} bytes; a checkpoint has 4096"):
            checkpoint.decode(bytes(length))
    for release, confirm, logics in [("4.1.0", 0, 0), ("5.1.0", 0, 0), ("5.1.1", 99, 0),
        ("5.4.0", 99, 0), ("5.5.0", 99, 99)]:  # fmt: skip
        found = checkpoint.after_rebuild(profile(release), 10, 8, 9, 99)
        assert found == checkpoint.Checkpoint(10, 8, 9, 0, confirm, logics)
        # nothing dispatched, nothing indexed, clocks before 1970
        assert checkpoint.after_rebuild(profile(release), -5, -1, -7, 99)[:4] == (0, 0, 0, 0)
    raw = (golden_stores.unpack("tiny_5.3.3").expect / "checkpoint").read_bytes()
    found = checkpoint.decode(raw)
    assert found == checkpoint.Checkpoint(0, 1795247615074, 1795247615057, 0, 44320, 0)
    assert checkpoint.encode(found) == raw


@given(st.tuples(LONGS, LONGS, LONGS, LONGS, LONGS, LONGS))
def test_six_longs_at_the_start_of_4096_bytes(values: tuple[int, ...]) -> None:
    raw = checkpoint.encode(checkpoint.Checkpoint(*values))
    assert len(raw) == 4096
    assert struct.unpack(">6q", raw[:48]) == values
    assert not any(raw[48:])
    assert checkpoint.decode(raw) == checkpoint.Checkpoint(*values)
