"""A writer against a list, with reopening, crashes, rolls and damage at the end as steps."""

from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from reput.store_format.log.record import Record
from reput.store_format.message.message import Message
from tests.broker.writer.crashes import log_bytes, open_memory
from tests.broker.writer.stores import RULES, Clock, read_stored, settings
from tests.faults.memory_files import MemoryFiles

SEGMENT = 2048


class WriterMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.files, self.clock = MemoryFiles(), Clock()
        self.given = settings(mappedFileSizeCommitLog=SEGMENT)
        self.writer = open_memory(self.files, self.given, self.clock)
        self.model: list[tuple[int, str, int, int, bytes]] = []  # offset, topic, queue, position

    def expect(self, physical: int, topic: str, queue: int, position: int, body: bytes) -> None:
        known = [m for m in self.model if m[1:3] == (topic, queue)]
        assert position == len(known)
        self.model.append((physical, topic, queue, position, body))

    @rule(topic=st.sampled_from("AB"), queue=st.integers(0, 1), body=st.binary(max_size=900))
    def append(self, topic: str, queue: int, body: bytes) -> None:
        result = self.writer.append(Message(topic, body, queue, keys="k"))
        self.expect(result.physical_offset, topic, queue, result.queue_offset, body)

    @rule(bodies=st.lists(st.binary(max_size=200), min_size=1, max_size=4))
    def append_batch(self, bodies: list[bytes]) -> None:
        result = self.writer.append_batch([Message("A", body, 1) for body in bodies])
        for number, body in enumerate(bodies):
            self.expect(result.offsets[number], "A", 1, result.queue_offset + number, body)

    @rule()
    def roll(self) -> None:
        body = bytes(SEGMENT - 200)
        result = self.writer.append(Message("B", body, 0))
        self.expect(result.physical_offset, "B", 0, result.queue_offset, body)

    @rule(milliseconds=st.integers(-5_000, 100_000))
    def wait(self, milliseconds: int) -> None:
        self.clock.now += milliseconds

    @rule()
    def dispatch(self) -> None:
        self.writer.dispatch()

    @rule()
    def flush_and_keep_checkpoint(self) -> None:
        self.writer.flush()
        self.writer.keep_checkpoint()

    @rule()
    def reopen(self) -> None:
        self.writer.close()
        self.writer = open_memory(self.files, self.given, self.clock)

    @rule()
    def crash(self) -> None:
        self.writer.abandon()
        self.writer = open_memory(self.files, self.given, self.clock)

    @precondition(lambda self: self.model)
    @rule(cut=st.integers(0, 100))
    def truncate(self, cut: int) -> None:
        """The last record loses its end, as a crash before the checkpoint may leave it."""
        physical = self.model[-1][0]
        if self.writer.store.checkpoint.physic_msg_timestamp >= self.writer.appender.last_timestamp:
            return  # it is known to be durable: that would be damage
        end = self.writer.log.end
        self.writer.abandon()
        segment = physical - physical % SEGMENT
        content = self.files.contents[self.files.names_of[f"commitlog/{segment:020d}"]]
        at = physical - segment + min(cut, end - physical - 1)
        content[at : end - segment] = bytes(end - segment - at)
        del self.model[-1]
        self.writer = open_memory(self.files, self.given, self.clock)

    @invariant()
    def the_log_is_the_list(self) -> None:
        end = self.writer.log.end
        raw = log_bytes(self.files, SEGMENT, -(-end // SEGMENT) * SEGMENT)
        found = [
            (r.physical_offset, r.topic, r.queue_id, r.queue_offset, r.body) for r in _records(raw)
        ]
        assert found == self.model

    def teardown(self) -> None:
        self.writer.close()
        positions = {
            (k.topic, k.queue_id): s.position for k, s in self.writer.queues.states.items()
        }
        for key, position in positions.items():
            assert position == len([m for m in self.model if m[1:3] == key])


def _records(raw: bytes) -> list[Record]:
    import numpy as np

    data = np.frombuffer(raw, np.uint8)

    def read(at: int, buffer: np.ndarray) -> None:
        buffer[:] = data[at : at + len(buffer)]

    records = []
    at = 0
    while at < len(raw):
        segment_end = at - at % SEGMENT + SEGMENT
        record = read_stored(read, at, segment_end, RULES)
        if record is None:
            if raw[at + 4 : at + 8].hex() != "cbd43194":
                break
            at = segment_end
            continue
        records.append(record)
        at += record.size
    return records


TestWriterMachine = WriterMachine.TestCase
TestWriterMachine.settings = hypothesis_settings(
    max_examples=20, stateful_step_count=30, deadline=None
)
