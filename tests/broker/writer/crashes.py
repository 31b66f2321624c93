"""A writer's work on files in memory, and what must hold of every state a crash may leave."""

from __future__ import annotations

import copy
import hashlib
import random
from dataclasses import dataclass, field
from itertools import islice
from unittest import mock

from reput.broker.writer import commit_log
from reput.broker.writer import index_writer as index_files
from reput.broker.writer.appender import Request
from reput.broker.writer.writer import CommitLogWriter
from reput.store_format.message.ids import UniqueIds
from reput.store_format.message.message import Message
from reput.store_format.names import COMMIT_LOG, CUT, segment_name
from reput.store_format.release.settings import WriterSettings
from tests.broker.services.preparing import Transactions
from tests.broker.writer.rocketmq_load import Load, keys_of
from tests.broker.writer.stores import Clock, settings
from tests.faults.failing import judge_all
from tests.faults.memory_files import Crash, MemoryFiles, crash_states


@dataclass
class Work:
    """What a writer did: every operation, and when it promised what."""

    start: MemoryFiles  # before the first operation
    files: MemoryFiles
    settings: WriterSettings
    acknowledged: list[tuple[int, int]] = field(default_factory=list)  # (operations, log end)
    ends: set[int] = field(default_factory=lambda: {0})  # where the log may end

    def promised(self, after: int) -> int:
        """Up to where the log was promised to be durable after so many operations."""
        return max((end for done, end in self.acknowledged if done <= after), default=0)


def open_memory(files: MemoryFiles, given: WriterSettings, clock: Clock) -> CommitLogWriter:
    return CommitLogWriter.open("", given, clock=clock, files=files, background=False,
                                unique_ids=UniqueIds(clock, "127.0.0.1:1", 1, 1))  # fmt: skip


# Of a SYNC_FLUSH log, by seed: a segment's at once, and less than one record has.
_ZEROS_AHEAD = (commit_log.ZEROS_AHEAD_BYTES, 300, 40)

# After how much of the log index/ changes, by seed: a few messages, some segments, never.
_PUBLISH = (900, 1 << 30, 5_000, 1 << 30)


def work(seed: int, steps: int, **named: object) -> Work:
    """Appends of every kind, flushes, dispatches, checkpoints and reopenings, by chance."""
    zeros = _ZEROS_AHEAD[seed % len(_ZEROS_AHEAD)]
    far = _PUBLISH[seed % len(_PUBLISH)]
    with (mock.patch.object(commit_log, "ZEROS_AHEAD_BYTES", zeros), mock.patch.object(
        index_files, "PUBLISH_LOG_BYTES", far)):  # fmt: skip
        return _work(seed, steps, **named)


def _work(seed: int, steps: int, **named: object) -> Work:
    given = settings(mappedFileSizeCommitLog=2048, **named)
    rng, clock = random.Random(seed), Clock()
    files = MemoryFiles()
    done = Work(copy.deepcopy(files), files, given)
    writer = open_memory(files, given, clock)
    half: list[int] = []

    def acknowledge() -> None:
        done.acknowledged.append((len(files.ops), writer.log.end))

    for step in range(steps):
        clock.now += rng.choice((0, 0, 1, 900, 4000))
        kind = rng.random()
        before = writer.log.end
        if kind < 0.6:
            writer.append(_message(rng, step))
        elif kind < 0.66:
            writer.append_batch([_batched(rng, step) for _ in range(rng.randrange(1, 4))])
        elif kind < 0.7:  # as group commit does: many callers' records in one write
            drafts = [writer.encoder.draft(_message(rng, step)) for _ in range(rng.randrange(2, 5))]
            writer.appender.append([Request((draft,)) for draft in drafts])
            if given.sync_flush:
                writer.flush()
        elif kind < 0.75:
            half.append(Transactions(writer).prepare(_message(rng, step)).physical_offset)
        elif kind < 0.8 and half and not given.transient_store_pool_enable:
            end = Transactions(writer)
            (end.commit if rng.random() < 0.5 else end.rollback)(half.pop())
        elif kind < 0.85:
            writer.flush()
            acknowledge()
        elif kind < 0.91:
            writer.dispatch()
        elif kind < 0.95:
            writer.keep_checkpoint()
        elif kind < 0.97:
            writer._durability.commit_if_due()
        else:
            writer.close()
            acknowledge()
            writer = open_memory(files, given, clock)
        if writer.log.end != before and given.sync_flush:
            acknowledge()
    writer.close()
    acknowledge()
    done.ends |= record_ends(files, given)
    return done


def _message(rng: random.Random, step: int) -> Message:
    return Message(
        topic=rng.choice(("A", "B")), body=rng.randbytes(rng.choice((0, 1, 40, 500, 900))),
        queue_id=rng.randrange(2), tags=rng.choice(("", "t", "long" * 30)),
        keys=rng.choice(("", f"k{step}", f"a{step} b")),
        properties={"p": "v" * rng.choice((1, 300))} if rng.random() < 0.4 else None,
        delay_level=3 if rng.random() < 0.1 else 0)  # fmt: skip


def _batched(rng: random.Random, step: int) -> Message:
    return Message("B", rng.randbytes(rng.choice((1, 60, 300))), 1, keys=f"b{step}")


def log_bytes(files: MemoryFiles, segment_bytes: int, end: int) -> bytes:
    """The log's bytes up to `end`; a missing segment ends them early."""
    whole = bytearray()
    for segment in range(0, end, segment_bytes):
        inode = files.names_of.get(f"{COMMIT_LOG}/{segment_name(segment)}")
        if inode is None:
            break
        whole += files.contents[inode]
    return bytes(whole[:end])


def record_ends(files: MemoryFiles, given: WriterSettings) -> set[int]:
    """Where a record ends, or a segment."""
    from tests.logs.encoder import MAGIC_BLANK

    size = given.mapped_file_size_commit_log
    whole = log_bytes(files, size, 1 << 30)
    at, ends = 0, {0}
    while at + 8 <= len(whole):
        length, magic = int.from_bytes(whole[at : at + 4]), int.from_bytes(whole[at + 4 : at + 8])
        if length == 0:
            break
        assert magic == MAGIC_BLANK or at // size == (at + length - 1) // size
        at += length
        ends.add(at)
    return ends


LAST_WORD = Message("A", b"one more", 1, keys="last", tags="t", unique_key="U")


@dataclass
class Judge:
    """Opens crash states, and says what is wrong with what comes of them."""

    done: Work
    _known: dict[int, dict[str, bytes]] = field(default_factory=dict)
    _ends: dict[bytes, int] = field(default_factory=dict)  # of states seen before
    checked: int = 0

    def check(self, crash: Crash, twice: bool) -> str:
        """What was promised is there, and the rest is as `_recover` says.

        What comes of a state depends on its bytes only, so that equal ones are opened once.
        """
        self.checked += 1
        state = _digest(crash.files)
        end = self._ends.get(state)
        if end is None:
            end = self._ends[state] = self._recover(crash, twice)
        promised = self.done.promised(crash.after)
        assert end >= promised, f"the log ends at {end}, {promised} was promised"
        return "whole"

    def _recover(self, crash: Crash, twice: bool) -> int:
        """Recover, append one message, be killed, recover again, close: all must be as if
        nothing but the log's beginning had ever been written. Returns where the log ended."""
        given, clock = self.done.settings, Clock(1_900_000_000_000)
        broker = Load(crash.files.tree(), given)
        writer = open_memory(crash.files, given, clock)
        end = writer.log.end
        assert end in self.done.ends, f"the log ends at {end}, where no record does"
        keys = keys_of(self._expected(end), given.max_hash_slot_num, end)
        if given.message_index_enable:
            found = broker.found(keys)
            assert found == keys, f"RocketMQ would lack {keys - found}, has twice {found - keys}"
        writer.abandon()
        broker = Load(crash.files.tree(), given)
        assert broker.found(keys) == keys, "as recovered, RocketMQ would find other keys"
        if twice:
            before = _but_checkpoint(crash.files.tree())
            again = open_memory(crash.files, given, clock)
            assert again.log.end == end, "a second recovery found another end"
            again.abandon()
            assert _but_checkpoint(crash.files.tree()) == before, "a second recovery wrote"
        writer = open_memory(crash.files, given, clock)
        writer.append(LAST_WORD)
        if given.transient_store_pool_enable:
            writer.flush()  # what is in memory only, a kill takes along
        writer.abandon()
        writer = open_memory(crash.files, given, clock)
        writer.close()
        _same(_comparable(crash.files.tree()), self._expected(end))
        return end

    def _expected(self, end: int) -> dict[str, bytes]:
        """The store whose log is the first `end` bytes of what was written, and one message."""
        if end not in self._known:
            given, size = self.done.settings, self.done.settings.mapped_file_size_commit_log
            files = MemoryFiles(folders={"", COMMIT_LOG})
            prefix = log_bytes(self.done.files, size, end)
            for number, segment in enumerate(range(0, end, size), 1):
                path = f"{COMMIT_LOG}/{segment_name(segment)}"
                files.names_of[path] = number
                files.contents[number] = bytearray(
                    prefix[segment : segment + size].ljust(size, b"\0"))  # fmt: skip
            writer = open_memory(files, given, Clock(1_900_000_000_000))
            assert writer.log.end == end
            writer.append(LAST_WORD)
            writer.close()
            self._known[end] = _comparable(files.tree())
        return self._known[end]


def _digest(files: MemoryFiles) -> bytes:
    found = hashlib.blake2b(digest_size=16)
    for folder in sorted(files.folders):
        found.update(folder.encode() + b"/")
    for name, inode in sorted(files.names_of.items()):
        found.update(f"\n{name} {len(files.contents[inode])}\n".encode())
        found.update(files.contents[inode])
    return found.digest()


def _comparable(tree: dict[str, bytes]) -> dict[str, bytes]:
    """Without what depends on when it was written, and what was cut; index files by number, an
    empty one of the log's end left out."""
    compared = {}
    index = sorted(name for name in tree if name.startswith("index/"))
    for name, content in tree.items():
        if name in ("checkpoint", "lock") or name.startswith(f"{CUT}/"):
            continue
        if name.startswith("index/"):
            name = f"index/{index.index(name)}"
        if name.startswith(COMMIT_LOG) and not any(content):
            continue
        compared[name] = content
    return compared


def _but_checkpoint(tree: dict[str, bytes]) -> dict[str, bytes]:
    """What a recovery must not change. Slots and header of the growing index are in memory."""
    return {n: c for n, c in tree.items() if n != "checkpoint" and not n.startswith("index/")}


def _same(found: dict[str, bytes], expected: dict[str, bytes]) -> None:
    assert sorted(found) == sorted(expected)
    for name, content in expected.items():
        if found[name] != content:
            pairs = enumerate(zip(found[name], content, strict=False))
            at = next((i for i, (a, b) in pairs if a != b), -1)
            raise AssertionError(f"{name} differs from offset {at} on")


def check_all(done: Work, seed: int, mixtures: int, each: int = 1) -> int:
    """Check each crash state of so many; returns how many there were."""
    judge = Judge(done)
    states = crash_states(done.start, done.files.ops, seed, mixtures)
    judge_all(islice(states, 0, None, each), done.files.ops,
              lambda crash: judge.check(crash, twice=judge.checked % 4 == 0))  # fmt: skip
    return judge.checked
