"""The table of queues: numbered in the order met, found again by name and id, forgotten."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from reput.store_format.dispatch import queue_table
from reput.store_format.kernels.java_text import hash_text

TABLE = queue_table.new_table(64, 1 << 14)
QUEUES = st.tuples(
    st.sampled_from(["a", "b", "topic", "topid", "t" * 40, "t" * 41]), st.integers(0, 3)
)


def number_of(table: queue_table.QueueTable, name: str, queue_id: int) -> int:
    buf = np.frombuffer(f"<{name}>".encode(), np.uint8)
    hashed = np.int32(hash_text(name) // 5)  # so that some hash alike
    return queue_table.find_queue(
        *table, buf, 1, 1 + len(name), hashed, queue_id, *queue_table.batch_topics([])
    )


@settings(deadline=None)  # a kernel may have to be compiled first
@given(st.lists(QUEUES, max_size=24))
def test_a_queue_is_found_again_until_all_are_forgotten(met: list[tuple[str, int]]) -> None:
    queue_table.clear(TABLE)  # of what the examples before have left
    numbers = [number_of(TABLE, name, queue_id) for name, queue_id in met]
    order = list(dict.fromkeys(met))
    assert numbers == [order.index(queue) for queue in met]
    assert [
        (queue.raw_name.decode(), queue.queue_id) for queue in queue_table.queues(TABLE)
    ] == order
