"""Flipped bits in derived files: a queue's entries, an index file's header, the checkpoint."""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from reput.jobs.judging.report import Report
from reput.jobs.verify import verify
from reput.store_format.layouts import CHECKPOINT, INDEX_HEADER_BYTES, QUEUE_ENTRY_BYTES
from tests.in_process import STORE, Session, as_text, storage_of
from tests.reliability.inputs import VERSION, Small

QUEUE = f"consumequeue/T/1/{0:020d}"
ENTRIES = (0, 3, 5)  # the first, a middle and the last one


class Wrong(NamedTuple):
    """One file with one bit flipped."""

    part: str
    path: str
    bit: int  # of the file


def wrong_bits(index: str, every: int = 1) -> Iterator[Wrong]:
    """Every bit; index: the index file's path below the store."""
    for name, number in zip(("first", "middle", "last"), ENTRIES, strict=True):
        start = 8 * QUEUE_ENTRY_BYTES * number
        for bit in range(start, start + 8 * QUEUE_ENTRY_BYTES, every):
            yield Wrong(f"{name} queue entry", QUEUE, bit)
    for bit in range(0, 8 * INDEX_HEADER_BYTES, every):
        yield Wrong("index header", index, bit)
    for bit in range(0, 8 * CHECKPOINT.itemsize, every):
        yield Wrong("checkpoint", "checkpoint", bit)


def flipped(content: bytes, bit: int) -> bytes:
    wrong = bytearray(content)
    wrong[bit // 8] ^= 1 << bit % 8
    return bytes(wrong)


def verified(store: Small, derived: Mapping[str, bytes], wrong: Wrong | None = None) -> Report:
    """`reput verify` of the log's store with these derived files, one of them wrong."""
    storage = storage_of(store.log())
    for path, content in derived.items():
        at_fault = wrong is not None and path == wrong.path
        storage.files[f"{STORE}/{path}"] = flipped(content, wrong.bit) if at_fault else content  # type: ignore[union-attr]
    return verify(
        Session(), STORE, rocketmq=VERSION,  # type: ignore[arg-type]
        settings=as_text(store.settings), storage=storage,
    )  # fmt: skip
