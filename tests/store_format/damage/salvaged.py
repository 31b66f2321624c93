"""What must hold of a salvaged store's queues."""

from tests.damaged import Damaged, entries
from tests.in_process import Rebuilt


def whole_but(log: Damaged, lost: set[int], queue: int = 0) -> list[int]:
    """A queue's entries; at a lost message's position stands the next one's."""
    mine = [n for n, m in enumerate(log.messages) if m.queue_id == queue]
    wanted: list[int] = []
    for number in reversed(mine):
        if number not in lost or wanted:
            wanted.insert(0, wanted[0] if number in lost else log.places[number])
    return wanted


def check_queues(log: Damaged, rebuilt: Rebuilt, lost: set[int]) -> None:
    """Every record that is left stands at its queueOffset; a lost one has the next one's entry."""
    for queue in {m.queue_id for m in log.messages}:
        assert entries(rebuilt, "T", queue) == whole_but(log, lost, queue), queue
