"""Which places prove that a record stands there, each condition by itself."""

import struct
import zlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reput.store_format.damage.resync import NOT_FOUND, Prover
from reput.store_format.kernels.crc import PrefixCrc
from reput.store_format.log.records import RecordRules
from tests.logs.encoder import Message, build_log, encode

SIZE = 4096
RULES = RecordRules(True, True)


def prover(segment: bytes) -> Prover:
    whole = np.frombuffer(segment, np.uint8)

    def read(at: int, buffer: np.ndarray) -> None:
        buffer[:] = whole[at : at + len(buffer)]

    return Prover(read, 0, len(segment), RULES)


def segment(second: Message, behind: bytes | None = None, count: int = 3) -> tuple[bytearray, int]:
    """A garbled record, then this one, then others; or `behind` instead of them."""
    log = [Message(body=b"first"), second, *(Message(body=b"x") for _ in range(count - 2))]
    made = bytearray(build_log(log, SIZE)[0])
    place = len(encode(log[0], 0))
    made[:4] = b"\xff" * 4
    if behind is not None:
        end = place + len(encode(second, place))
        made[end : end + len(behind)] = behind
    return made, place


SOUND = Message(body=b"second")
JUNK = b"\x55" * 300


@pytest.mark.parametrize(
    ("second", "behind", "proves"),
    [
        (SOUND, None, True),
        (SOUND, JUNK, True),  # its body has a CRC
        (SOUND, bytes(300), True),
        (Message(body=b"second", body_crc=5), None, False),
        (Message(body=b"second", physical_offset=7), None, False),
        (Message(body=b"second", magic=0xDAA320A8), None, False),
        (Message(body=b"second", topic_length=2), None, False),
        (Message(body=b"", crc_property=False), None, True),
        (Message(body=b""), JUNK, False),  # nothing vouches for it
        (Message(body=b"", crc_property=True), JUNK, True),
        (Message(body=b"", topic="A" * 200, version=2), None, True),
    ],
)
def test_each_condition(second: Message, behind: bytes | None, proves: bool) -> None:
    made, place = segment(second, behind)
    assert prover(bytes(made)).proves(place) is proves


def test_a_wrong_crc_property_disproves() -> None:
    made, place = segment(Message(body=b"second", crc_property=True))
    made[place + 12] ^= 1  # queueId: only `__CRC32#` covers it
    assert not prover(bytes(made)).proves(place)


def test_a_record_of_another_place_is_passed_over() -> None:
    made, place = segment(Message(body=b"second", physical_offset=7))
    after = place + len(encode(SOUND, place))
    assert prover(bytes(made)).next_record(1) == after


def test_the_blank_of_the_right_size_is_found() -> None:
    made = bytearray(SIZE)
    struct.pack_into(">iI", made, 1000, SIZE - 1000 - 1, 0xCBD43194)
    struct.pack_into(">iI", made, 2000, SIZE - 2000, 0xCBD43194)
    assert prover(bytes(made)).next_blank(1) == 2000
    assert prover(bytes(made)).next_blank(2001) == NOT_FOUND


@given(st.binary(min_size=1, max_size=5000), st.data())
def test_crcs_of_ranges(content: bytes, data: st.DataObject) -> None:
    whole = np.frombuffer(content, np.uint8)

    def read(at: int, buffer: np.ndarray) -> None:
        buffer[:] = whole[at : at + len(buffer)]

    crcs = PrefixCrc(read, 0, len(content))
    for _ in range(5):
        at = data.draw(st.integers(0, len(content)))
        end = data.draw(st.integers(at, len(content)))
        assert crcs.crc(at, end) == zlib.crc32(content[at:end])
