"""A record whose own end is gone, though its lengths and its body are right."""

import numpy as np
import pytest

from reput.store_format.damage.resync import lost_its_end
from reput.store_format.faults import Fault
from reput.store_format.log.records import RECORD_ROW
from tests.logs.encoder import properties

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


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        (b"", Fault.NONE),
        (TEXT, Fault.NONE),
        (TEXT[:-1], Fault.NONE),  # some releases wrote no last separator
        (TEXT[:-2], Fault.TEXT),  # the last letter is cut: no UTF-8
        (TEXT[:-4] + bytes(4), Fault.TEXT),
        (TEXT[:-4] + b"\n\x02", Fault.TEXT),
        (TEXT[:-4] + b" \x7f\x02", Fault.NONE),
        (b"\x01\x02\x01", Fault.NONE),
        (b"\xff", Fault.TEXT),
    ],
)
def test_properties_are_text(text: bytes, fault: Fault) -> None:
    assert fault_of(text) == fault
    assert fault_of(text, TEXT) == fault


@pytest.mark.parametrize(
    ("last", "before", "fault"),
    [
        (TEXT, TEXT + SEAL, Fault.PROPERTY_CRC),
        (b"", SEAL, Fault.PROPERTY_CRC),
        (TEXT + SEAL, TEXT + SEAL, Fault.NONE),
        (TEXT + SEAL, TEXT, Fault.NONE),
        (TEXT, SEAL + TEXT, Fault.NONE),  # a seal is the last property
        (SEAL + b"x" * 20, TEXT + SEAL, Fault.PROPERTY_CRC),
    ],
)
def test_beside_a_sealed_record_a_record_is_sealed(
    last: bytes, before: bytes, fault: Fault
) -> None:
    assert fault_of(last, before) == fault


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        (TEXT, Fault.NONE), (TEXT[:-4] + bytes(4), Fault.TEXT), (b"\0", Fault.TEXT),
        (b"\xff", Fault.NONE), (TEXT[:-4] + b"\0\x02", Fault.NONE), (b"", Fault.NONE),
    ],
)  # fmt: skip
def test_at_the_logs_end_only_a_torn_record_ends_in_zeros(text: bytes, fault: Fault) -> None:
    """Zeros follow every log, so they are no damage that could make a text suspect."""
    assert fault_of(text, TEXT + SEAL, ends_log=True) == fault
