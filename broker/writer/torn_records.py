"""Finds a record whose topic or properties lack a sector after a crash."""

from reput.store_format.files.protocol import SECTOR_BYTES, Bytes
from reput.store_format.kernels.jit import allocating
from reput.store_format.log.records import Rows


@allocating
def first_torn(buf: Bytes, rows: Rows, segment: int, durable_before: int) -> int:
    """The first row with a lost sector in its topic or properties; len(rows) if there is none.

    A lost sector reads as zeros. In the fixed fields a wrong length shows it, in the body the CRC.
    Topic and properties have neither length nor CRC, but never hold a NUL. A lost part ends where a
    sector ends, or at the record's end, so a NUL in one of these places shows it. Rows stored
    before `durable_before` (milliseconds) cannot be torn.
    """
    for i in range(len(rows)):
        row = rows[i]
        if row.storeTimestamp < durable_before:
            continue
        elided = row.bodyLength if row.bodyElided else 0
        last = row.at + row.size - 1 - elided
        # add it to a place in buf after the body to get the place in the file
        shift = row.physicalOffset - segment - row.at + elided
        if row.propertiesLength > 0 and buf[last] == 0:
            return i
        if row.topicLength > 0 and buf[row.topicAt + row.topicLength - 1] == 0:
            return i
        at = row.topicAt
        while at <= last:
            if (at + shift + 1) % SECTOR_BYTES == 0 and buf[at] == 0:
                inside_topic = at < row.topicAt + row.topicLength
                inside_properties = at >= row.propertiesAt
                if inside_topic or inside_properties:
                    return i
            at += 1
    return len(rows)
