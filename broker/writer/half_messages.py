"""Transactions as the broker does them: through the half and the op topic.

TransactionalMessageBridge.putHalfMessage, EndTransactionProcessor.endMessageTransaction,
TransactionalMessageServiceImpl.deletePrepareMessage. Only a broker checks back half messages that
were never ended.
"""

from collections.abc import Mapping, Sequence

from reput.broker.writer.copies import properties_of, put_again, read_stored, text_of
from reput.broker.writer.writer import AppendResult, CommitLogWriter
from reput.store_format.dispatch.scan import record_rules
from reput.store_format.layouts import SYS_TRANSACTION_COMMIT
from reput.store_format.log.record import Record
from reput.store_format.message.message import (
    HALF_TOPIC,
    OP_TOPIC,
    Message,
    check_sendable,
    check_topic,
    encode_properties,
)
from reput.store_format.message.refusals import NotPrepared

_OP_MAP_CAPACITY = 16  # of Message's own map: no client has sent an op message
_REMOVE_TAG = "d"  # TransactionalMessageUtil.REMOVE_TAG
_REAL_PLACE = ("REAL_TOPIC", "REAL_QID")
_NO_REAL_PLACE = (*_REAL_PLACE, "TRAN_MSG")


class Transactions:
    """Prepares messages in a writer's store, and ends them."""

    def __init__(self, writer: CommitLogWriter) -> None:
        self.writer = writer
        rules = writer.profile
        self._records = record_rules(rules)
        self._capacity = rules.property_map_capacity
        self._text_ends = rules.property_text_ends

    def prepare(self, message: Message, producer_group: str = "reput") -> AppendResult:
        """Append a half message; its physical offset is what `commit` and `rollback` ask for.

        Raises Refused, WriterFailed, WriterClosed.
        """
        check_sendable(message.topic, message.queue_id)
        encoder = self.writer.encoder
        check_topic(message.topic, encoder.settings.max_topic_length)
        properties = encoder.properties(message)
        # DefaultMQProducerImpl.sendMessageInTransaction: a half message is never delayed
        properties.pop("DELAY", None)
        properties |= {"TRAN_MSG": "true", "PGROUP": producer_group}
        properties["__transactionId__"] = properties["UNIQ_KEY"]
        properties |= {"REAL_TOPIC": message.topic, "REAL_QID": str(message.queue_id)}
        half = Message(
            topic=HALF_TOPIC,
            body=message.body,
            properties=encode_properties(properties, self._capacity, self._text_ends),
            flag=message.flag,
            sys_flag=message.sys_flag,
            wait=message.wait,
            born_timestamp=message.born_timestamp,
            born_host=message.born_host,
            store_host=message.store_host,
            reconsume_times=message.reconsume_times,
        )
        return self.writer.put(encoder.draft(half))

    def commit(self, physical_offset: int) -> AppendResult:
        """Append the half message at an offset to its real queue, then note it as ended.

        As in a broker, neither waits for the disk. Raises NotPrepared, Refused, WriterFailed.
        """
        half, properties = self._half(physical_offset)
        result = self.put_committed(half, properties)
        self._end(half)
        return result

    def put_committed(self, half: Record, properties: Mapping[str, str]) -> AppendResult:
        """Append a half message to its real queue (EndTransactionProcessor.endMessageTransaction).

        properties: what `reput_records.properties_of` read. Raises Refused, WriterFailed.
        """
        # Up to 5.3.4 the broker makes the property text before it removes REAL_TOPIC, so a
        # committed message keeps it. The text is made anew only for a message with a delay.
        left_out = () if self.writer.profile.commit_keeps_place else _REAL_PLACE
        text = text_of(self.writer, {n: v for n, v in properties.items() if n not in left_out})
        place = properties["REAL_TOPIC"], int(properties["REAL_QID"])
        kept = {n: v for n, v in properties.items() if n not in _NO_REAL_PLACE}
        topic, queue_id = self.writer.encoder.place(*place, kept)
        if (topic, queue_id) != place:
            text = text_of(self.writer, kept)
        return put_again(
            self.writer, half, topic, queue_id, text, SYS_TRANSACTION_COMMIT, half.physical_offset
        )

    def rollback(self, physical_offset: int) -> AppendResult:
        """Append the op message that ends the half message at an offset; returns its result."""
        half, _ = self._half(physical_offset)
        return self._end(half)

    def _half(self, at: int) -> tuple[Record, dict[str, str]]:
        log = self.writer.log
        record = None
        if log.start <= at < log.committed:
            segment_end = at - at % log.segment_bytes + log.segment_bytes
            record = read_stored(log.read, at, segment_end, self._records)
        if record is None or record.topic != HALF_TOPIC:
            raise NotPrepared(f"there is no half message at offset {at}")
        properties = properties_of(self.writer, record)
        if "REAL_TOPIC" not in properties or "REAL_QID" not in properties:
            raise NotPrepared(f"the half message at offset {at} lacks its real topic or queue")
        return record, properties

    def _end(self, half: Record) -> AppendResult:
        return self.end(half.queue_id, [half.queue_offset])

    def end(self, queue_id: int, half_offsets: Sequence[int]) -> AppendResult:
        """Append the op message that ends half messages of a queue, by their queue offsets.

        half_offsets: one alone up to 5.0.0. Raises WriterFailed.
        """
        writer = self.writer
        comma = "," if writer.profile.op_message_lists else ""
        op = Message(
            topic=OP_TOPIC,
            queue_id=queue_id,
            body="".join(f"{offset}{comma}" for offset in half_offsets).encode(),
            properties=encode_properties(
                {"TAGS": _REMOVE_TAG, "WAIT": "true"}, _OP_MAP_CAPACITY, self._text_ends
            ),
            wait=False,
        )
        return writer.put(writer.encoder.draft(op))
