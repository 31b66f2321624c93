"""Our readers are asked what RocketMQ is asked, on stores that RocketMQ wrote: the same answers."""

import os
import shutil
import subprocess
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from reput import IndexReader, LogReader, QueueReader
from reput.store_format.derived.extent import queue_tails
from reput.store_format.derived.queue_reader import Boundary
from reput.store_format.dispatch.scan import scan_rules
from reput.store_format.files.folder import Folder
from reput.store_format.files.local import LocalStorage
from reput.store_format.log.reader import Record
from reput.store_format.log.segments import find_segments
from reput.store_format.names import BATCH_CONSUME_QUEUE, CONSUME_QUEUE, INDEX
from reput.store_format.release.profiles import profile
from reput.store_format.release.settings import settings_from
from tests import golden_stores
from tests.rocketmq.judge import Drivers
from tests.store_format.query.bad_files import ENDS, end_chains

pytestmark = pytest.mark.rocketmq

QUICK = ("small_all_4.9.7", "small_all_5.3.3", "small_lmq_batch_5.5.0", "small_expired_5.3.3")
LONG = ("mixed_4.9.7", "odd_5.5.0", "expired_5.3.3", "many_queues_5.3.3",
        "lmq_batch_5.3.3")  # fmt: skip
FAR = 1 << 41  # milliseconds


class Asked:
    """One store, as our readers and as RocketMQ see it."""

    def __init__(self, name: str, folder: Path) -> None:
        golden = golden_stores.unpack(name)
        self.version, self.golden = golden.version, golden
        self.store = golden_stores.copy_input(golden, folder / "store")
        for part in (CONSUME_QUEUE, BATCH_CONSUME_QUEUE, INDEX):
            shutil.rmtree(self.store / part, ignore_errors=True)
            if (golden.expect / part).is_dir():
                command = ["cp", "-r", "--sparse=always", golden.expect / part, self.store / part]
                subprocess.run(command, check=True)
        (self.store / "abort").unlink(missing_ok=True)
        self.storage = LocalStorage()
        self.profile = profile(golden.version)
        self.settings = settings_from({k: str(v) for k, v in golden.settings.items()})
        rules = scan_rules(self.profile, self.settings, ())
        segments = find_segments(self.storage, [f"{self.store}/commitlog"],
                                 self.settings.mapped_file_size_commit_log)  # fmt: skip
        self.log = LogReader(self.storage, segments, rules.records, rules.checks)
        self.records = {r.physical_offset: r for r in self.log.records(self.log.start)}
        self._date_files()
        self.queues = {
            (tail.topic, tail.queue_id): QueueReader(
                Folder(self.storage, self._folder(*tail[:3])), tail[2]
            )
            for tail in queue_tails(Folder(self.storage, str(self.store)))
        }
        self.index = IndexReader(Folder(self.storage, str(self.store)), self.settings)

    def _folder(self, topic: str, queue_id: int, batch: bool) -> str:
        kind = BATCH_CONSUME_QUEUE if batch else CONSUME_QUEUE
        return f"{self.store}/{kind}/{topic}/{queue_id}"

    def _date_files(self) -> None:
        """Each queue file was changed last when its last message came."""
        for tail in queue_tails(Folder(self.storage, str(self.store))):
            queue = QueueReader(Folder(self.storage, self._folder(*tail[:3])), tail.batch)
            for file in queue.files:
                first = file.start // 20
                last = [
                    e for e in queue.entries(first) if e.position < first + file.state.size // 20
                ]
                time = self.time_of(last[-1].physical_offset) if last else 0
                os.utime(file.path, (time / 1000, time / 1000))

    def time_of(self, place: int) -> int:
        return self.records[place].store_timestamp if place in self.records else 0

    # --- the questions, and our answers --------------------------------------------------------

    def questions(self, queues: int, times: int, keys: int) -> list[list[Any]]:
        asked: list[list[Any]] = []
        for topic, queue_id in list(self.queues)[:queues]:
            queue = self.queues[topic, queue_id]
            asked += [["min", topic, queue_id], ["max", topic, queue_id]]
            entries = list(queue.entries(0))
            stamps = sorted({self.time_of(e.physical_offset) for e in entries} - {0})
            wanted = stamps[:: max(len(stamps) // times, 1)] + stamps[-1:]
            around = {stamp + more for stamp in wanted for more in (-1, 0, 1)}
            around |= {a + (b - a + more) // 2 for a, b in pairwise(wanted) for more in (0, 1)}
            for time in sorted(around | {0, FAR}):
                for boundary in ("LOWER", "UPPER"):
                    asked.append(["time", topic, queue_id, time, boundary])
            end = queue.maximum()
            for position in sorted({0, end // 3, end // 2, end - 1, end, end + 5} - {-1}):
                asked.append(["get", topic, queue_id, position, 3])
        for record in list(self.records.values())[:: max(len(self.records) // keys, 1)]:
            asked.append(["look", record.physical_offset])
            time = record.store_timestamp
            for key in _keys(record)[:2]:
                for limit, begin, end in (
                    (64, 0, FAR), (2, 0, FAR), (64, time, FAR), (64, 0, time),
                    (64, time - 1000, time + 1000), (64, time + 1, FAR), (100, -FAR, time - 1),
                ):  # fmt: skip
                    asked.append(["key", record.topic, key, limit, begin, end])
        asked.append(["key", "no such topic", "k", 5, 0, FAR])
        return asked

    def agrees(self, question: list[Any], theirs: Any) -> bool:
        name = question[0]
        if name == "look":
            return self._look(question[1]) == theirs[: len(theirs) - 2]
        if name == "key":
            found = self.index.query(*question[1:])
            ours = sorted(hit.physical_offset for hit in found.hits)
            known = [place for place in ours if place in self.records]
            return known == theirs[0] and (
                not known or [found.last_timestamp, found.last_offset] == theirs[1:]
            )
        queue = self.queues[question[1], question[2]]
        least = queue.minimum(self.log.start, self.profile)
        if name == "min":
            return least == theirs
        if name == "max":
            return queue.maximum() == theirs
        if name == "time":
            boundary = Boundary(question[4].lower())
            return queue.position_by_time(question[3], boundary, self.log, self.profile) == theirs
        return self._got(queue, least, question[3], theirs)

    def _got(self, queue: QueueReader, least: int, position: int, theirs: Any) -> bool:
        status, minimum, maximum, messages = theirs
        if (minimum, maximum) != (least, queue.maximum()):
            return False
        found = list(queue.entries(position, position + 3))
        ours = [entry.physical_offset for entry in found]
        if status != "FOUND":
            return not ours or position < least
        places = [place for _, place in messages]
        if not found or not found[0].position <= position < found[0].position + found[0].messages:
            # from pre-blanks on it looks further, and passes over what is in the first segment
            return set(places) <= {entry.physical_offset for entry in queue.entries(position)}
        return bool(places) and ours[: len(places)] == places[: len(ours)]

    def _look(self, place: int) -> list[Any]:
        r: Record = self.log.record_at(place)
        assert r == self.records[place]
        assert len(self.log.body(r)) == r.body_length
        return [r.topic, r.queue_id, r.queue_offset, place, r.size, r.sys_flag, r.flag,
                r.born_timestamp, r.store_timestamp, r.body_crc, r.reconsume_times,
                r.prepared_offset]  # fmt: skip


def _keys(record: Record) -> list[str]:
    pairs = (pair.partition(b"\x01") for pair in record.properties.split(b"\x02"))
    values = {name: value.decode("utf-8", "replace") for name, _, value in pairs}
    unique = [values[b"UNIQ_KEY"]] if values.get(b"UNIQ_KEY") else []
    return unique + [key for key in values.get(b"KEYS", "").split(" ") if key]


def _compare(
    name: str, folder: Path, drivers: Drivers, queues: int, times: int, keys: int,
    before: Callable[[Path], object] = lambda store: None,
) -> None:  # fmt: skip
    """before: what is done to the store."""
    asked = Asked(name, folder)
    before(asked.store)
    questions = asked.questions(queues, times, keys)
    ours = list(questions)
    answer = drivers.get(asked.version).ask(
        "query", store=str(asked.store), settings=dict(asked.golden.settings),
        topic_attributes=asked.golden.topic_attributes, questions=questions,
    )  # fmt: skip
    # RocketMQ has written to its last file as it stopped
    asked.index = IndexReader(Folder(asked.storage, str(asked.store)), asked.settings)
    wrong = [(question, theirs) for question, theirs in zip(ours, answer["answers"], strict=True)
             if not asked.agrees(question, theirs)]  # fmt: skip
    assert not wrong, f"{len(wrong)} of {len(questions)}: {wrong[:12]}"
    assert len(questions) > 20


@pytest.mark.parametrize(
    ("name", "many"),
    [*((name, (12, 8, 10)) for name in QUICK),
     *(pytest.param(name, (200, 60, 150), marks=pytest.mark.long) for name in LONG)],
)  # fmt: skip
def test_the_same_answers(name: str, many: tuple[int, int, int], folder, drivers) -> None:
    _compare(name, folder, drivers, *many)


@pytest.mark.parametrize("how", ENDS)
def test_the_same_answers_of_chains_that_end_in_damage(how, folder, drivers) -> None:
    """All keys, as RocketMQ's own look-up finds them: short, without a word."""

    def before(store: Path) -> None:
        for file in sorted((store / INDEX).iterdir())[::2]:
            end_chains(file, ENDS[how])

    _compare("small_all_5.3.3", folder, drivers, queues=1, times=1, keys=50, before=before)
