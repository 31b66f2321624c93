"""Half messages as a producer and a broker make and end them, for stores to be tested."""

from reput.broker.services import resolve
from reput.broker.writer.copies import properties_of
from reput.broker.writer.writer import AppendResult
from reput.store_format.dispatch.scan import record_rules
from reput.store_format.log.record import Record
from reput.store_format.message.message import (
    HALF_TOPIC,
    Message,
    check_sendable,
    check_topic,
    encode_properties,
)
from reput.store_format.message.refusals import NotPrepared
from tests.broker.writer.stores import read_stored


class Transactions(resolve.Transactions):
    """Prepares messages in a writer's store, and ends them by their physical offsets."""

    def prepare(self, message: Message, producer_group: str = "reput") -> AppendResult:
        """Append a half message; its physical offset is what `commit` and `rollback` ask for.

        Raises Refused, WriterFailed, WriterClosed.
        """
        check_sendable(message.topic, message.queue_id)
        encoder, rules = self.writer.encoder, self.writer.profile
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
            properties=encode_properties(
                properties, rules.property_map_capacity, rules.property_text_ends
            ),
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
        self.end(half.queue_id, [half.queue_offset])
        return result

    def rollback(self, physical_offset: int) -> AppendResult:
        """Append the op message that ends the half message at an offset; returns its result."""
        half, _ = self._half(physical_offset)
        return self.end(half.queue_id, [half.queue_offset])

    def _half(self, at: int) -> tuple[Record, dict[str, str]]:
        log = self.writer.log
        record = None
        if log.start <= at < log.committed:
            segment_end = at - at % log.segment_bytes + log.segment_bytes
            record = read_stored(log.read, at, segment_end, record_rules(self.writer.profile))
        if record is None or record.topic != HALF_TOPIC:
            raise NotPrepared(f"there is no half message at offset {at}")
        properties = properties_of(self.writer, record)
        if "REAL_TOPIC" not in properties or "REAL_QID" not in properties:
            raise NotPrepared(f"the half message at offset {at} lacks its real topic or queue")
        return record, properties
