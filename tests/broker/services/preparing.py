"""Half messages as a producer and a broker make and end them, for stores to be tested."""

from dataclasses import replace

from reput.broker.services import resolve
from reput.broker.writer.copies import properties_of
from reput.broker.writer.writer import AppendResult
from reput.store_format.dispatch.scan import record_rules
from reput.store_format.log.record import Record
from reput.store_format.message.message import HALF_TOPIC, Message, encode_properties
from tests.broker.writer.stores import read_stored


class Transactions(resolve.Transactions):
    """Prepares messages in a writer's store, and ends them by their physical offsets."""

    def prepare(self, message: Message) -> AppendResult:
        """Append a half message; its physical offset is what `commit` and `rollback` ask for."""
        encoder, rules = self.writer.encoder, self.writer.profile
        properties = encoder.properties(message)
        # DefaultMQProducerImpl.sendMessageInTransaction: a half message is never delayed
        properties.pop("DELAY", None)
        properties |= {"TRAN_MSG": "true", "PGROUP": "reput"}
        properties["__transactionId__"] = properties["UNIQ_KEY"]
        properties |= {"REAL_TOPIC": message.topic, "REAL_QID": str(message.queue_id)}
        raw = encode_properties(properties, rules.property_map_capacity, rules.property_text_ends)
        half = replace(message, topic=HALF_TOPIC, queue_id=0, delay_level=0, properties=raw)
        return self.writer.put(encoder.draft(half))

    def commit(self, physical_offset: int) -> AppendResult:
        """Append the half message at an offset to its real queue, then note it as ended.

        As in a broker, neither waits for the disk."""
        half, properties = self.half(physical_offset)
        result = self.put_committed(half, properties)
        self.end(half.queue_id, [half.queue_offset])
        return result

    def rollback(self, physical_offset: int) -> AppendResult:
        """Append the op message that ends the half message at an offset; returns its result."""
        half, _ = self.half(physical_offset)
        return self.end(half.queue_id, [half.queue_offset])

    def half(self, at: int) -> tuple[Record, dict[str, str]]:
        """The half message at an offset, and its properties."""
        log = self.writer.log
        segment_end = at - at % log.segment_bytes + log.segment_bytes
        record = read_stored(log.read, at, segment_end, record_rules(self.writer.profile))
        assert record is not None
        return record, properties_of(self.writer, record)
