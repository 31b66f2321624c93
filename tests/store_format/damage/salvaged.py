"""What must hold of a salvaged store's queues."""

from tests.damaged import Damaged, entries
from tests.in_process import Rebuilt


def check_queues(log: Damaged, rebuilt: Rebuilt, lost: set[int]) -> None:
    """Every record that is left stands at its queueOffset; a lost one has the next one's entry."""
    for queue in {m.queue_id for m in log.messages}:
        mine = [n for n, m in enumerate(log.messages) if m.queue_id == queue]
        wanted: list[int] = []
        following = -2
        for n in reversed(mine):
            if n not in lost:
                following = log.places[n]
            if following != -2:
                wanted.insert(0, following)
        assert entries(rebuilt, "T", queue) == wanted, queue
