"""Operations that fail, and what is judged of the states that are left: for each kind of work."""

import copy
import errno
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple
from unittest import mock

from tests.faults.memory_files import Crash, MemoryFiles, Op


class Failure(NamedTuple):
    """How a disk fails. torn: of a write it takes the first half before it does."""

    error: int
    torn: bool = False


FAILURES = {"EIO": Failure(errno.EIO), "ENOSPC": Failure(errno.ENOSPC),
            "a short write, then ENOSPC": Failure(errno.ENOSPC, torn=True)}  # fmt: skip


def fail_at(files: MemoryFiles, number: int, how: Failure, for_ever: bool) -> None:
    """Let the operation of that number fail; with for_ever all after it too."""
    count = 0

    def fail(op: Op) -> bool:
        nonlocal count
        count += 1
        return count - 1 == number or (for_ever and count > number)

    files.fail, files.error, files.torn = fail, how.error, how.torn


def numbers(ops: list[Op], how: Failure) -> list[int]:
    """The operations that can fail like that."""
    return [n for n, op in enumerate(ops) if op.kind == "write" or not how.torn]


def same_again(files: MemoryFiles) -> MemoryFiles:
    """The files as they are, all durable, with nothing recorded; no operation fails."""
    again = copy.deepcopy(files)
    again.ops, again.fail = [], lambda op: False
    return again


def judge_all(
    states: Iterable[Crash], ops: list[Op], judge: Callable[[Crash], str]
) -> Counter[str]:
    """How often which verdict came; a failed one names its state."""
    seen: Counter[str] = Counter()
    for crash in states:
        try:
            seen[judge(crash)] += 1
        except Exception as error:
            last = ops[crash.after - 1] if crash.after else None
            raise AssertionError(f"{crash.after} {crash.how} {last}: {error!r}") from error
    return seen


def distinct(states: Iterable[Crash]) -> Iterator[Crash]:
    """Those of which no earlier one has the same files."""
    seen = set[str]()
    for crash in states:
        left = repr(sorted(crash.files.tree().items()))
        if left not in seen:
            seen.add(left)
            yield crash


class Writes:
    """The system's writes: `count` of them were asked for; the one of number `at` is short.

    for_ever: all from it on are short. then: the error that the write after it ends with, and
    with for_ever all after that one."""

    def __init__(self, at: int = -1, for_ever: bool = False, then: int = 0) -> None:
        self.at, self.for_ever, self.then = at, for_ever, then
        self.count = 0
        self.short = 0  # writes that took less than they were given

    def made(self, write: Callable[..., int]) -> Callable[..., int]:
        """os.write or os.pwrite with a disk behind it that does this."""

        def wrong(descriptor: int, data: Any, *place: int) -> int:
            number, self.count = self.count, self.count + 1
            late = number - self.at
            if self.at < 0 or late < 0 or (late > 0 and not (self.for_ever or self.then)):
                return write(descriptor, data, *place)
            if late and self.then:
                if late > 1 and not self.for_ever:
                    return write(descriptor, data, *place)
                raise OSError(self.then, os.strerror(self.then))
            view = memoryview(data).cast("B")
            some = max(len(view) // 2, 1)
            self.short += some < len(view)
            return write(descriptor, view[:some], *place)

        return wrong

    def made_of_parts(self, write: Callable[..., int]) -> Callable[..., int]:
        """os.pwritev with the same disk, for a single buffer."""

        def whole(descriptor: int, data: Any, *place: int) -> int:
            return write(descriptor, [data], *place)

        wrong = self.made(whole)

        def of_one(descriptor: int, buffers: list[Any], *place: int) -> int:
            (data,) = buffers
            return wrong(descriptor, data, *place)

        return of_one


@contextmanager
def disk_writes(how: Writes) -> Iterator[Writes]:
    """Whatever this process writes to files by system calls goes through `how`."""
    with (
        mock.patch.object(os, "write", how.made(os.write)),
        mock.patch.object(os, "pwrite", how.made(os.pwrite)),
        mock.patch.object(os, "pwritev", how.made_of_parts(os.pwritev)),
    ):
        yield how
