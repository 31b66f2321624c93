"""Finds the sizes of segments, queue files and index files from the store's own files.

A broker has these sizes from its configuration. Here they are read off the files, so that the
writer never continues a file with another size.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from reput.store_format.derived.consume_queue import segment_bytes
from reput.store_format.derived.index_sizes import (
    ENTRIES,
    SLOTS,
    Seen,
    SizeDisagrees,
    index_sizes_of,
)
from reput.store_format.disk.files import Files
from reput.store_format.names import (
    BATCH_CONSUME_QUEUE,
    COMMIT_LOG,
    CONSUME_QUEUE,
    INDEX,
    parse_index_name,
    parse_segment_name,
)

SEGMENT = "mappedFileSizeCommitLog"
QUEUE = "mappedFileSizeConsumeQueue"
BATCH_QUEUE = "mapperFileSizeBatchConsumeQueue"
SIZES = (SEGMENT, QUEUE, BATCH_QUEUE, SLOTS, ENTRIES)


def told_sizes(
    segments: Sequence[Seen], queues: Iterable[Seen], batch_queues: Iterable[Seen],
    indexes: Sequence[Seen], given: Mapping[str, int], otherwise: Mapping[str, int],
) -> dict[str, int]:  # fmt: skip
    """The sizes that the files show, by RocketMQ's names; a size that no file shows is left out.

    given: the user's settings; otherwise: RocketMQ's defaults. Empty files, which a crash may
    leave, show nothing. Raises SizeDisagrees, which names a file, both sizes and the option to
    give.
    """
    told = {}
    for name, files in ((SEGMENT, segments), (QUEUE, queues), (BATCH_QUEUE, batch_queues)):
        length = _one_length(name, files, given)
        if length is not None:
            told[name] = length
    return told | index_sizes_of(indexes, given, otherwise)


def _one_length(name: str, files: Iterable[Seen], given: Mapping[str, int]) -> int | None:
    """The length that all files have, which must be the given one if there is one."""
    first: Seen | None = None
    for file in files:
        if not file.length:
            continue
        if name in given and file.length != rounded(name, given[name]):
            # A crash may leave a segment too short; recovery will give it its full length.
            if name == SEGMENT and first is not None and file.length < given[name]:
                continue
            raise SizeDisagrees(
                f"{file.path}: has {file.length} bytes, and {name} is {given[name]}; "
                f"give --set {name}={file.length}"
            )
        if first is not None and file.length != first.length:
            if name == SEGMENT and file.length < first.length:
                continue
            raise SizeDisagrees(
                f"{file.path}: has {file.length} bytes, and {first.path} has {first.length}; one "
                f"of them is damaged: give --set {name}=... and use `reput recover`"
            )
        first = first or file
    return first.length if first else None


def rounded(name: str, size: int) -> int:
    return segment_bytes(size, False) if name == QUEUE else size


# --- the files of a store -------------------------------------------------------------------


def sizes_of_store(
    files: Files, given: Mapping[str, int], otherwise: Mapping[str, int]
) -> dict[str, int]:
    """`told_sizes` of the store below `files`. Only reads. Raises SizeDisagrees, OSError."""
    opened: list[Callable[[], None]] = []

    def see(path: str) -> Seen:
        file = files.open_read(path)
        length = file.length()
        if path.startswith(f"{INDEX}/"):
            opened.append(file.close)
        else:
            file.close()
        return Seen(path, length, file.read_at)

    def queue_files(folder: str) -> Iterator[Seen]:
        for topic in files.names(folder):
            for queue_id in files.names(f"{folder}/{topic}"):
                if queue_id.isdigit():
                    for name in files.names(f"{folder}/{topic}/{queue_id}"):
                        parse_segment_name(name)
                        yield see(f"{folder}/{topic}/{queue_id}/{name}")

    try:
        segments = [see(f"{COMMIT_LOG}/{n}") for n in files.names(COMMIT_LOG) if _is_segment(n)]
        indexes = []
        for name in files.names(INDEX):
            parse_index_name(name)
            indexes.append(see(f"{INDEX}/{name}"))
        return told_sizes(
            segments, queue_files(CONSUME_QUEUE), queue_files(BATCH_CONSUME_QUEUE), indexes,
            given, otherwise,
        )  # fmt: skip
    finally:
        for close in opened:
            close()


def _is_segment(name: str) -> bool:
    try:
        parse_segment_name(name)
    except ValueError:
        return False  # recovery says what is wrong with it
    return True
