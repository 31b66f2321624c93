"""CRC-32 in kernels, against zlib."""

import random
import subprocess
import sys
import zlib
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reput.store_format.kernels.carryless import AVAILABLE
from reput.store_format.kernels.crc import SPACING, PrefixCrc, _by_tables, crc32, shift

# What a processor with PCLMULQDQ alone runs; nothing of it may be kept for this one.
BLOCK_BY_BLOCK = """
import zlib
import numpy as np
from reput.store_format.kernels import carryless, compiler
carryless._PAIRS_AT_ONCE = False
compiler._CACHE_FOLDER = None
from reput.store_format.kernels.crc import crc32
data = bytes((i * 37 + 11) & 0xFF for i in range(600))
buf = np.frombuffer(data, np.uint8)
for start in (0, 1, 40):
    for end in range(start, len(data)):
        assert crc32(buf, start, end) == zlib.crc32(data[start:end]), (start, end)
text = "".join(map(str, crc32.inspect_llvm().values()))
assert "llvm.x86.pclmulqdq(" in text and "pclmulqdq.256" not in text
"""


@pytest.mark.parametrize("start", [0, 1, 15, 16, 40])
def test_every_length_around_the_steps_of_sixteen(start: int) -> None:
    data = bytes((i * 37 + 11) & 0xFF for i in range(200))
    buf = np.frombuffer(data, np.uint8)
    for end in range(start, len(data)):
        assert crc32(buf, start, end) == zlib.crc32(data[start:end])


@settings(deadline=None)
@given(st.binary(max_size=400), st.integers(0, 40), st.integers(0, 40))
def test_any_bytes_anywhere_in_a_buffer(data: bytes, before: int, behind: int) -> None:
    buf = np.frombuffer(b"\x55" * before + data + b"\xaa" * behind, np.uint8)
    assert crc32(buf, before, before + len(data)) == zlib.crc32(data)


@settings(deadline=None)
@given(st.binary(max_size=200))
def test_a_processor_that_cannot_fold_finds_the_same(data: bytes) -> None:
    buf = np.frombuffer(data + b"x", np.uint8)
    state = _by_tables(buf, np.uint64(0), np.uint64(len(data)), np.uint32(0xFFFFFFFF))
    assert int(state) ^ 0xFFFFFFFF == zlib.crc32(data)


@pytest.mark.skipif(not AVAILABLE, reason="this processor has no carry-less product")
def test_a_processor_that_folds_block_by_block_finds_the_same() -> None:
    subprocess.run([sys.executable, "-c", BLOCK_BY_BLOCK], check=True)


# --- CRCs of ranges from prefixes that are each hashed once, against zlib's.
DATA = random.Random(7).randbytes(5 * SPACING + 17)
START = 1000  # where the data begins in its file


def prefixes(data: bytes = DATA) -> PrefixCrc:
    def read(at: int, buffer: Any) -> None:
        assert at >= START
        assert at + len(buffer) <= START + len(data)
        buffer[:] = np.frombuffer(data, np.uint8, len(buffer), at - START)

    return PrefixCrc(read, START, START + len(data))


@pytest.mark.parametrize("length", [0, 1, 7, 1023, 1 << 20])
def test_a_shift_is_what_zeros_behind_would_do(length: int) -> None:
    # a CRC is linear, but for the ones that zlib begins and ends with
    assert shift(0, length) == 0
    wanted = zlib.crc32(b"a" + bytes(length)) ^ zlib.crc32(b"b" + bytes(length))
    assert shift(zlib.crc32(b"a") ^ zlib.crc32(b"b"), length) == wanted


@pytest.mark.parametrize(("at", "end"), [
    (0, 0), (0, 1), (5, 5), (0, SPACING), (SPACING, 2 * SPACING), (SPACING - 1, SPACING + 1),
    (3, len(DATA)), (0, len(DATA)), (len(DATA), len(DATA)),
])  # fmt: skip
@pytest.mark.parametrize("length", [len(DATA), 3, SPACING, 2 * SPACING])
def test_any_range_has_zlibs_crc_also_of_data_that_ends_before_a_mark(at, end, length) -> None:
    at, end = min(at, length), min(end, length)
    assert prefixes(DATA[:length]).crc(START + at, START + end) == zlib.crc32(DATA[at:end])


def test_ranges_in_any_order_agree_and_cost_two_spacings_at_most_after_the_first_pass() -> None:
    crc = prefixes()
    for at, end in ((4000, 5000), (10, 20), (0, len(DATA)), (2000, 4100)):
        assert crc.crc(START + at, START + end) == zlib.crc32(DATA[at:end])
    crc = prefixes()
    crc.crc(START, START + len(DATA))
    assert crc.hashed <= len(DATA) + SPACING
    for at in range(0, 5 * SPACING, 501):
        before = crc.hashed
        crc.crc(START + at, START + len(DATA))
        assert crc.hashed - before <= 2 * SPACING
