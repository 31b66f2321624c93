"""Tasks for the tests of engines: what workers import, so that it imports little."""

import errno
import os
import secrets
import signal
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

import pyarrow as pa

from reput.store_format.faults import DamageFound, StoreChanged, StoreError
from reput.udfs.staging import schema

ROW = schema(key=pa.int64(), word=pa.string(), value=pa.int64())
IN_PART = ROW.append(pa.field("part", pa.string()))
BATCHES = schema(rows=pa.int64(), bytes=pa.int64())
SAID = schema(id=pa.int64(), said=pa.string())


def as_they_are(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The rows that arrive."""
    yield from batches


def in_part(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The rows, each with a name of the partition that it arrives in."""
    part = secrets.token_hex(8)
    for batch in batches:
        names = pa.array([part] * len(batch), pa.string())
        yield pa.RecordBatch.from_arrays([*batch.columns, names], schema=IN_PART)


@dataclass(frozen=True)
class Say:
    """A row for each number, with what a function says of it."""

    say: Callable[[int], str]

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            rows = [{"id": n, "said": self.say(n)} for n in batch.column("id").to_pylist()]
            yield pa.RecordBatch.from_pylist(rows, SAID)


@dataclass(frozen=True)
class Fail:
    """Raises at number 1 what a word says; all other numbers take their time, and tell of it."""

    how: str
    folder: str

    def __call__(self, number: int) -> str:
        if number == 1:
            with (Path(self.folder) / "attempts").open("a") as file:
                file.write("x")
            getattr(self, self.how)()
        return "done"

    def gone(self) -> None:
        Path("a/b it's gone").read_bytes()

    def gone_and_named(self) -> NoReturn:
        try:
            self.gone()
        except FileNotFoundError as error:
            raise StoreError("a/b: names a file that is not there") from error
        raise AssertionError

    def store_error(self) -> NoReturn:
        raise StoreError("a/b: offset 7: what it is")

    def damage(self) -> NoReturn:
        raise DamageFound("a/b: offset 7: it's 'damaged', \u2013 so: 100%")

    def changed(self) -> NoReturn:
        raise StoreChanged("a/b changed")

    def os_error(self) -> NoReturn:
        raise OSError(errno.EIO, "no answer", "/a/b")

    def once(self) -> None:
        if (Path(self.folder) / "attempts").read_text() == "x":
            raise ConnectionResetError(errno.ECONNRESET, "reset")

    def value_error(self) -> NoReturn:
        raise ValueError("not a number")

    def not_pickled(self) -> NoReturn:
        class Odd(Exception):
            def __init__(self, one: int, two: object) -> None:
                super().__init__("odd")
                self.lock = two

        raise Odd(1, lambda: None)

    def sys_exit(self) -> NoReturn:
        sys.exit(7)

    def os_exit(self) -> NoReturn:
        os._exit(0)

    def interrupted(self) -> NoReturn:
        raise KeyboardInterrupt

    def killed(self) -> None:
        os.kill(os.getpid(), signal.SIGKILL)
        time.sleep(60)


def surroundings(number: int) -> str:
    """What a worker sees of the process that wants its work."""
    mask = os.umask(0)
    os.umask(mask)
    main = getattr(sys.modules["__main__"], "__file__", None)
    return f"{os.environ.get('TOLD')} {mask:o} {os.getcwd()} {main}"


def pid(number: int) -> str:
    """The worker's process; each one is asked, as none is quick."""
    time.sleep(0.05)
    return str(os.getpid())


def sleep(number: int) -> str:
    """Far longer than any test waits."""
    return str(time.sleep(600))


def large(number: int) -> str:
    """A result that no pipe holds."""
    return "x" * (4 << 20)


def memory(number: int) -> str:
    """What the worker holds, in KiB, after a task that needs 32 MiB."""
    bytearray(32 << 20)
    pa.array(range(1 << 16))
    lines = Path("/proc/self/status").read_text().splitlines()
    return f"{os.getpid()} {next(line for line in lines if line.startswith('VmRSS')).split()[1]}"


def with_bytes(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Each row with as many bytes as one may carry."""
    from reput.udfs.rebuild.carried import CARRIED_BYTES

    for rows in batches:
        carried = pa.array([bytes(CARRIED_BYTES)] * rows.num_rows, pa.binary())
        yield pa.RecordBatch.from_arrays([rows.column("id"), carried], ["id", "carried"])


def batch_sizes(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """How large each batch is that arrives."""
    for rows in batches:
        row = {"rows": rows.num_rows, "bytes": rows.nbytes}
        yield pa.RecordBatch.from_pylist([row], BATCHES)
