"""Which places prove that a record stands there, each condition by itself."""

import struct
import zlib

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from reput.store_format.damage.resync import NOT_FOUND, Prover, lost_its_end
from reput.store_format.faults import Fault
from reput.store_format.kernels.crc import PrefixCrc
from reput.store_format.log.records import RECORD_ROW, RecordRules
from tests.logs.encoder import Message, build_log, encode, properties
from tests.store_format.damage.walked import reader

SIZE = 4096
RULES = RecordRules(True, True)


def prover(segment: bytes) -> Prover:
    return Prover(reader(np.frombuffer(segment, np.uint8)), 0, len(segment), RULES)


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


def test_each_condition_of_a_record_that_proves_itself_or_lost_its_end() -> None:
    for second, behind, proves in [(SOUND, None, True),
        (SOUND, JUNK, True),  # its body has a CRC
        (SOUND, bytes(300), True), (Message(body=b"second", body_crc=5), None, False),
        (Message(body=b"second", physical_offset=7), None, False),
        (Message(body=b"second", magic=0xDAA320A8), None, False),
        (Message(body=b"second", topic_length=2), None, False),
        (Message(body=b"", crc_property=False), None, True),
        (Message(body=b""), JUNK, False),  # nothing vouches for it
        (Message(body=b"", crc_property=True), JUNK, True),
        (Message(body=b"", topic="A" * 200, version=2), None, True)]:  # fmt: skip
        made, place = segment(second, behind)
        assert prover(bytes(made)).proves(place) is proves
    made, place = segment(Message(body=b"second", crc_property=True))
    made[place + 12] ^= 1  # queueId: only `__CRC32#` covers it
    assert not prover(bytes(made)).proves(place)
    made, place = segment(Message(body=b"second", physical_offset=7))
    after = place + len(encode(SOUND, place))
    assert prover(bytes(made)).next_record(1) == after
    made = bytearray(SIZE)
    struct.pack_into(">iI", made, 1000, SIZE - 1000 - 1, 0xCBD43194)
    struct.pack_into(">iI", made, 2000, SIZE - 2000, 0xCBD43194)
    assert prover(bytes(made)).next_blank(1) == 2000
    assert prover(bytes(made)).next_blank(2001) == NOT_FOUND
    for text, fault in [(b"", Fault.NONE), (TEXT, Fault.NONE),
        (TEXT[:-1], Fault.NONE),  # some releases wrote no last separator
        (TEXT[:-2], Fault.TEXT),  # the last letter is cut: no UTF-8
        (TEXT[:-4] + bytes(4), Fault.TEXT), (TEXT[:-4] + b"\n\x02", Fault.TEXT),
        (TEXT[:-4] + b" \x7f\x02", Fault.NONE), (b"\x01\x02\x01", Fault.NONE),
        (b"\xff", Fault.TEXT)]:  # fmt: skip
        assert fault_of(text) == fault
        assert fault_of(text, TEXT) == fault
    for last, before, fault in [(TEXT, TEXT + SEAL, Fault.PROPERTY_CRC),
        (b"", SEAL, Fault.PROPERTY_CRC), (TEXT + SEAL, TEXT + SEAL, Fault.NONE),
        (TEXT + SEAL, TEXT, Fault.NONE),
        (TEXT, SEAL + TEXT, Fault.NONE),  # a seal is the last property
        (SEAL + b"x" * 20, TEXT + SEAL, Fault.PROPERTY_CRC)]:  # fmt: skip
        assert fault_of(last, before) == fault
    # Zeros follow every log, so they are no damage that could make a text suspect.
    for text, fault in [(TEXT, Fault.NONE), (TEXT[:-4] + bytes(4), Fault.TEXT), (b"\0", Fault.TEXT),
        (b"\xff", Fault.NONE), (TEXT[:-4] + b"\0\x02", Fault.NONE), (b"", Fault.NONE)]:  # fmt: skip
        assert fault_of(text, TEXT + SEAL, ends_log=True) == fault


@given(st.binary(min_size=1, max_size=5000), st.data())
def test_crcs_of_ranges(content: bytes, data: st.DataObject) -> None:
    crcs = PrefixCrc(reader(np.frombuffer(content, np.uint8)), 0, len(content))
    for _ in range(5):
        at = data.draw(st.integers(0, len(content)))
        end = data.draw(st.integers(at, len(content)))
        assert crcs.crc(at, end) == zlib.crc32(content[at:end])


# --- A record whose own end is gone, though its lengths and its body are right.
SEAL = properties(("__CRC32#", "0123456789"))
TEXT = properties(("KEYS", "k1 k2"), ("TAGS", "标签"))


def fault_of(last: bytes, before: bytes | None = None, ends_log: bool = False) -> Fault:
    """Of a record with these properties, behind another one if `before` is given."""
    texts = [last] if before is None else [before, last]
    rows = np.zeros(len(texts), RECORD_ROW)
    rows["propertiesLength"] = [len(text) for text in texts]
    rows["propertiesAt"] = [10, 10 + len(texts[0])][: len(texts)]
    window = np.frombuffer(b"\xaa" * 10 + b"".join(texts) + b"\xaa" * 10, np.uint8)
    return lost_its_end(window, rows, ends_log)
