"""Appends a record of a log once more, in another place, as a broker's services do it.

What belongs to the message stays: body, flags, bornTimestamp, hosts, reconsumeTimes. queueOffset,
physical offset and storeTimestamp are new.
"""

from collections.abc import Mapping

from reput.broker.writer.writer import AppendResult, CommitLogWriter
from reput.store_format.layouts import SYS_BORN_HOST_V6, SYS_STORE_HOST_V6, SYS_TRANSACTION_MASK
from reput.store_format.log.record import Record
from reput.store_format.message.message import Message, encode_properties, parse_properties

# Bits of a sysFlag that the encoder sets by itself, from the transaction type and the hosts.
_OWN_BITS = SYS_TRANSACTION_MASK | SYS_BORN_HOST_V6 | SYS_STORE_HOST_V6
_CRC = "__CRC32#"


def properties_of(writer: CommitLogWriter, record: Record) -> dict[str, str]:
    """A record's properties as its broker reads them, without a CRC that the append makes anew."""
    properties = parse_properties(record.properties, writer.profile.split_properties)
    if writer.encoder.adds_crc:
        properties.pop(_CRC, None)
    return properties


def text_of(writer: CommitLogWriter, properties: Mapping[str, str]) -> bytes:
    """The text of properties that a broker has read (messageProperties2String). Raises Refused."""
    rules = writer.profile
    return encode_properties(properties, rules.property_map_capacity, rules.property_text_ends)


def put_again(
    writer: CommitLogWriter, record: Record, topic: str, queue_id: int, properties: bytes,
    transaction: int, prepared_offset: int = 0,
) -> AppendResult:  # fmt: skip
    """Append the record's message to a topic and queue, without waiting for the disk.

    record: with its body. properties: their text, written unchanged. transaction:
    SYS_TRANSACTION_*. Raises Refused, WriterFailed.
    """
    assert record.body is not None, "a record is put again with its body"
    message = Message(
        topic=topic,
        body=record.body,
        queue_id=queue_id,
        properties=properties,
        flag=record.flag,
        transaction=transaction,
        sys_flag=record.sys_flag & ~_OWN_BITS,
        prepared_offset=prepared_offset,
        wait=False,
        born_timestamp=record.born_timestamp,
        reconsume_times=record.reconsume_times,
    )
    return writer.put(writer.encoder.draft(message, record.born_host, record.store_host))
