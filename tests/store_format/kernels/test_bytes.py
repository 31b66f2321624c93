"""Numbers and blocks that kernels read at any place of a buffer, against Python's own."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numba import njit

from reput.store_format.kernels import bytes as blocks
from reput.store_format.kernels.bytes import get_i16, get_i32, get_i64, put_i32, put_i64
from reput.store_format.kernels.compiler import settled
from tests.processes import run_python


@njit(cache=True)
@settled
def _numbers(buf, at, out):  # type: ignore[no-untyped-def]
    """Read the three numbers at `at`, and write the two that can be written to `out`."""
    numbers = (get_i16(buf, at), get_i32(buf, at), get_i64(buf, at))
    put_i32(out, at, numbers[1])
    put_i64(out, at + 4, numbers[2])
    return numbers


@settings(deadline=None)  # a kernel may have to be compiled first
@given(st.binary(min_size=8, max_size=20), st.data())
def test_numbers_are_big_endian_and_signed(raw: bytes, data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(raw) - 8))
    out = np.full(len(raw) + 4, 7, np.uint8)
    numbers = _numbers(np.frombuffer(raw, np.uint8), at, out)
    parts = [raw[at : at + size] for size in (2, 4, 8)]
    assert numbers == tuple(int.from_bytes(part, "big", signed=True) for part in parts)
    assert out.tobytes() == b"\7" * at + parts[1] + parts[2] + b"\7" * (len(raw) - 8 - at)


FEW = st.lists(st.sampled_from(b"\x00\x01\xff"), max_size=3 * blocks.BLOCK).map(bytes)
MANY = st.builds(bytes.__mul__, FEW, st.integers(1, blocks.BLOCK))


@settings(deadline=None)
@given(MANY, st.data())
def test_a_byte_is_found_where_it_first_stands(raw: bytes, data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(raw)))
    end = data.draw(st.integers(at, len(raw)))
    for byte in (0, 1, 0xFF, 2):
        place = raw.find(bytes([byte]), at, end)
        expected = end if place < 0 else place
        assert blocks.find_byte(np.frombuffer(raw, np.uint8), at, end, byte) == expected


@settings(deadline=None)
@given(MANY, MANY, st.data())
def test_texts_are_the_same_if_all_bytes_are(one: bytes, other: bytes, data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(one)))
    other_at = data.draw(st.integers(0, len(other)))
    if data.draw(st.booleans()):  # what follows does not matter
        other = other[:other_at] + one[at:] + other[other_at:]
    length = data.draw(st.integers(0, min(len(one) - at, len(other) - other_at)))
    expected = one[at : at + length] == other[other_at : other_at + length]
    buffers = np.frombuffer(one, np.uint8), np.frombuffer(other, np.uint8)
    assert blocks.same_bytes(buffers[0], at, buffers[1], other_at, length) == expected


@settings(deadline=None)
@given(one=MANY, at=st.integers(0, 1 << 12), by=st.integers(0, 255))
def test_the_first_byte_that_differs_is_found(one: bytes, at: int, by: int) -> None:
    at, other = at % (len(one) + 1), bytearray(one)
    if at < len(one):
        other[at] ^= by
    wanted = at if at < len(one) and by else len(one)
    buffers = np.frombuffer(one, np.uint8), np.frombuffer(bytes(other), np.uint8)
    assert blocks.first_unlike(*buffers, len(one)) == wanted
    assert blocks.first_unlike(*buffers, wanted) == wanted
    assert blocks.same_bytes(buffers[0], 0, buffers[1], 0, len(one)) == (wanted == len(one))


@pytest.mark.parametrize("at", [-1, 3])
def test_bounds_are_checked_where_numba_is_asked_to(at: int) -> None:
    """The fuzzers rely on it."""
    code = f"""
import numpy as np
from numba import njit
from reput.store_format.kernels.llvm import get_i16
read = njit(lambda buf, at: get_i16(buf, at))
assert read(np.ones(4, np.uint8), 2) == 0x101
read(np.ones(4, np.uint8), {at})
"""
    ran = run_python("-c", code, env={"NUMBA_BOUNDSCHECK": "1"})
    assert "IndexError" in ran.stderr


def test_bytes_are_copied_and_no_others() -> None:
    source = np.arange(300, dtype=np.uint8)
    for length in (*range(100), 200):
        for at, start in ((0, 0), (7, 50), (300 - length, 300 - length)):
            out = np.full(300, 255, np.uint8)
            wanted = out.copy()
            wanted[at : at + length] = source[start : start + length]
            blocks.copy_bytes(out, at, source, start, length)
            assert np.array_equal(out, wanted)
