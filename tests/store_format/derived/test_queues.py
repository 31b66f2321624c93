"""Queues in files: which topics and queues there are, listed once."""

import pytest

from reput.store_format.derived.queue_files import BadQueue
from reput.store_format.derived.queues import FileQueues
from reput.store_format.files.folder import Folder
from tests.memory_storage import MemoryStorage
from tests.store_format.derived.made_files import entries

NAME = "0" * 20


def queues(*paths: str) -> FileQueues:
    storage = MemoryStorage({f"s/{path}": entries(0, 5) for path in paths})
    return FileQueues(Folder(storage, "s"), lambda batch: 46 if batch else 20)


def test_topics_are_those_with_a_queue_of_either_kind() -> None:
    made = queues(
        f"consumequeue/b/0/{NAME}", f"batchconsumequeue/a/1/{NAME}", f"consumequeue/none/x/{NAME}",
        "consumequeue/file", f"index/c/0/{NAME}",
    )  # fmt: skip
    assert made.topics() == ["a", "b"]
    assert queues().topics() == []


@pytest.mark.parametrize(
    ("names", "ids"),
    [
        (["10", "9", "0"], [0, 9, 10]),
        (["01", "-1", "x", "1 ", "\u0661"], []),
        (["2147483647"], [2147483647]),
    ],
)
def test_a_folder_is_a_queue_by_its_number(names: list[str], ids: list[int]) -> None:
    made = queues(*(f"consumequeue/T/{name}/{NAME}" for name in names))
    assert made.of("T") == [(number, False) for number in ids]


def test_one_id_may_have_a_queue_of_both_kinds() -> None:
    made = queues(f"consumequeue/T/1/{NAME}", f"batchconsumequeue/T/1/{NAME}",
                  f"batchconsumequeue/T/0/{NAME}")  # fmt: skip
    assert made.of("T") == [(0, True), (1, False), (1, True)]
    assert made.open("T", 1, True).folder == "s/batchconsumequeue/T/1"
    assert made.open("T", 1, False).maximum() == 5


def test_a_topic_that_is_no_folder_has_no_queue() -> None:
    made = queues(f"consumequeue/T/1/{NAME}")
    assert [made.of(topic) for topic in ("../T", "", ".", "other", "T/1")] == [[]] * 5


def test_what_is_listed_once_stays() -> None:
    made = queues(f"consumequeue/T/1/{NAME}")
    assert (made.topics(), made.of("T")) == (["T"], [(1, False)])
    made.store.storage.files[f"s/consumequeue/U/0/{NAME}"] = b""  # type: ignore[attr-defined]
    made.store.storage.files[f"s/consumequeue/T/2/{NAME}"] = b""  # type: ignore[attr-defined]
    assert (made.topics(), made.of("T")) == (["T"], [(1, False)])


def test_the_files_length_is_looked_for_once_for_each_kind() -> None:
    asked = list[bool]()

    def look(batch: bool) -> int:
        asked.append(batch)
        return 0

    made = FileQueues(Folder(MemoryStorage(), "s"), look)
    assert [made.file_bytes(batch) for batch in (False, True, False, True)] == [0] * 4
    assert asked == [False, True]
    assert made.dispatched_to() == -1


def test_files_that_are_no_queues_are_reported_when_it_is_opened() -> None:
    made = queues(f"consumequeue/T/1/{0:020d}", f"consumequeue/T/1/{400:020d}")
    assert made.of("T") == [(1, False)]
    with pytest.raises(BadQueue, match="a hole"):
        made.open("T", 1, False)
