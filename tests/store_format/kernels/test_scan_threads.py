"""A scan's kept buffers are a thread's own: Sail runs tasks in threads of one process."""

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

from reput.udfs.rebuild import scan


def test_each_thread_has_its_own_and_keeps_them() -> None:
    together = Barrier(2)

    def twice(_: int) -> tuple[int, int]:
        first = scan.scan_buffers(1 << 10, 1 << 10)
        together.wait(60)
        return id(first), id(scan.scan_buffers(1 << 10, 1 << 10))

    with ThreadPoolExecutor(2) as pool:
        (a, a_again), (b, b_again) = pool.map(twice, range(2))
    assert a == a_again != b == b_again
