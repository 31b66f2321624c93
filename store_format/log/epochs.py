"""The epoch file of controller mode: which master wrote the log from which physical offset on.

RocketMQ: CheckpointFile (two lines: the number of entries, the CRC-32 of all lines that follow),
EpochFileCache.EpochEntrySerializer (a line `epoch-startOffset` for each entry). A slave cuts its
log where its file and the master's diverge (EpochFileCache.findConsistentPoint).
"""

import zlib
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from reput.store_format.files.protocol import InputStorage
from reput.store_format.names import EPOCH_FILE as EPOCH_FILE

_HEAD_LINES = 2
_BACKUP = ".bak"
_NO_END = (1 << 63) - 1


class Epoch(NamedTuple):
    """One entry: a master's number, and the physical offset from which it wrote."""

    number: int
    start: int


class BadEpochs(ValueError):
    """The file is not as RocketMQ writes it."""


def parse_epochs(raw: bytes) -> tuple[Epoch, ...]:
    """The entries in the file's order. Raises BadEpochs, with field, value and reason."""
    lines = raw.decode("latin-1").split("\n")
    lines = [line.rstrip("\r") for line in lines]
    while lines and not lines[-1]:
        lines.pop()
    if len(lines) < _HEAD_LINES:
        raise BadEpochs(f"has {len(lines)} lines: a count, a CRC-32 and a line an entry are wanted")
    for name, text in (("count", lines[0]), ("CRC-32", lines[1])):
        if not _is_number(text):
            raise BadEpochs(f"{name}: {text[:20]!r} is no number")
    count, crc, entries = int(lines[0]), int(lines[1]), lines[_HEAD_LINES:]
    if count != len(entries):
        raise BadEpochs(f"count: says {count} entries, has {len(entries)}")
    ends = ("".join(f"{line}{end}" for line in entries) for end in ("\n", "\r\n"))
    if crc not in {zlib.crc32(text.encode("latin-1")) & 0x7FFFFFFF for text in ends}:
        raise BadEpochs(f"CRC-32: {crc} is not that of the entries")
    return tuple(_entry(line) for line in entries)


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit()


def _entry(line: str) -> Epoch:
    number, separator, start = line.partition("-")
    if not (separator and _is_number(number) and _is_number(start)):
        raise BadEpochs(f"entry: {line[:40]!r} is not epoch-startOffset")
    return Epoch(int(number), int(start))


def read_epochs(storage: InputStorage, store: str) -> tuple[Epoch, ...] | None:
    """A store's epochs, by its epoch file or that file's .bak; None where it has none.

    Raises BadEpochs where no file is whole, with the path.
    """
    wrong: list[str] = []
    for path in (f"{store}/{EPOCH_FILE}", f"{store}/{EPOCH_FILE}{_BACKUP}"):
        try:
            return parse_epochs(storage.read_bytes(path))
        except (FileNotFoundError, NotADirectoryError):
            continue
        except BadEpochs as error:
            wrong.append(f"{path}: {error}")
    if wrong:
        raise BadEpochs("; ".join(wrong))
    return None


def consistent_point(
    one: Sequence[Epoch], one_end: int, other: Sequence[Epoch], other_end: int
) -> int:
    """Where a slave would cut its log: the least end of the last epoch that both have with one
    startOffset; -1 where they have none (EpochFileCache.findConsistentPoint).

    one_end, other_end: where the logs end, which is where their last epochs do.
    """
    ends, starts = _ends(one, one_end), _ends(other, other_end)
    for entry in sorted(ends, reverse=True):
        if entry in starts:
            return min(ends[entry], starts[entry])
    return -1


def _ends(epochs: Sequence[Epoch], end: int) -> dict[Epoch, int]:
    in_order = sorted(epochs)
    ends = {epoch: after.start for epoch, after in pairwise(in_order)}
    if not in_order:
        return {}
    last = in_order[-1]
    # setLastEpochEntryEndOffset leaves an epoch that begins after the log's end without an end
    return {**ends, last: end if last.start <= end else _NO_END}
