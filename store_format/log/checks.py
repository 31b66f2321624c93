"""Which CRCs a reader of a log compares."""

from typing import NamedTuple


class Checks(NamedTuple):
    """What a walk compares besides lengths and physicalOffsets."""

    body: bool = False  # each body with its bodyCRC
    property: bool = False  # a `__CRC32#` with its record, where a record has one
    split_properties: bool = False  # properties are separated as up to 4.9.0 (Profile)
    # The row of a record longer than a window gets, as its bodyCRC, the CRC of all but the record's
    # last 20 bytes. A caller that compares each `__CRC32#` itself (property_crc) needs this.
    seal: bool = False


NO_CHECKS = Checks()
