"""Pieces of a backed-up log: what `zstd` and pyarrow read of them, and tables that lie."""

import random
import shutil
import struct
import subprocess
from contextlib import suppress
from pathlib import Path

import pyarrow as pa
import pytest

from reput.store_format.faults import PieceBroken
from reput.store_format.files.frames import (
    FRAME_BYTES,
    compress,
    decode_all,
    read_table,
    tail_bytes,
)
from reput.store_format.kernels.crc import crc_of

LENGTHS = (0, 1, 17, FRAME_BYTES - 1, FRAME_BYTES, FRAME_BYTES + 1, 3 * FRAME_BYTES + 5)


def _plain(length: int) -> bytes:
    draws = random.Random(length)
    return b"".join(draws.randbytes(40) + bytes(60) for _ in range(length // 100 + 1))[:length]


@pytest.mark.parametrize("length", LENGTHS)
def test_others_read_a_piece(length: int, tmp_path: Path) -> None:
    plain = _plain(length)
    stored = compress(plain)
    assert compress(plain, crc=crc_of) == stored
    assert decode_all(stored, length).tobytes() == plain
    if shutil.which("zstd") is None:
        assert pa.CompressedInputStream(pa.BufferReader(stored), "zstd").read() == plain
        return
    (tmp_path / "piece.zst").write_bytes(stored)
    told = subprocess.run(["zstd", "-dc", tmp_path / "piece.zst"], capture_output=True, check=True)
    assert told.stdout == plain


def test_each_bit_of_the_tables_counts_and_a_length_that_is_not_the_piece_s_is_refused() -> None:
    for length in [1, FRAME_BYTES + 1]:
        stored, tail = compress(_plain(length)), tail_bytes(length)
        for bit in range(8 * (len(stored) - tail), 8 * len(stored)):
            flipped = bytearray(stored)
            flipped[bit // 8] ^= 1 << bit % 8
            with pytest.raises(PieceBroken):
                decode_all(flipped, length)
    for length in [0, -1, 64 * FRAME_BYTES, FRAME_BYTES + 1]:
        stored = compress(b"x" * FRAME_BYTES)
        with pytest.raises(PieceBroken):
            decode_all(stored, length)
        with pytest.raises(PieceBroken):
            decode_all(stored[:-1], FRAME_BYTES)
    for first, second in [
        ((1 << 31, FRAME_BYTES), (9, 5)),  # huge, stored
        ((100, 1 << 31), (9, 5)),  # huge, plain: nothing of that size is made
        ((100, FRAME_BYTES), (1 << 20, 5)),  # goes on into the tables
        ((0, FRAME_BYTES), (9, 5)),
        ((100, FRAME_BYTES - 1), (9, 6)),  # frames of other sizes than a piece has
    ]:
        length = FRAME_BYTES + 5
        stored = compress(_plain(length))
        lying = stored[:-25] + struct.pack("<IIII", *first, *second) + stored[-9:]
        assert len(lying) == len(stored)
        with pytest.raises(PieceBroken):
            read_table(lying[-tail_bytes(length) :], length, len(lying))


def test_flipped_frames_and_frames_of_other_sizes_are_found() -> None:
    plain = _plain(FRAME_BYTES + 500)
    stored = compress(plain)
    draws = random.Random(1)
    for _ in range(200):
        flipped = bytearray(stored)
        flipped[draws.randrange(len(stored) - tail_bytes(len(plain)))] ^= 1 << draws.randrange(8)
        with suppress(PieceBroken):
            assert decode_all(flipped, len(plain)).tobytes() == plain  # a bit that says nothing
    # All stored sizes are right, so that only the plain ones tell.
    length = FRAME_BYTES + 5
    stored = bytearray(compress(_plain(length)))
    for at, size in ((-21, FRAME_BYTES - 1), (-13, 6)):
        assert struct.unpack_from("<I", stored, len(stored) + at)[0] in (FRAME_BYTES, 5)
        struct.pack_into("<I", stored, len(stored) + at, size)
    with pytest.raises(PieceBroken, match="frame 0 of the seek table"):
        read_table(bytes(stored[-tail_bytes(length) :]), length, len(stored))
