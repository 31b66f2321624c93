"""Single files that options name: a picture, all ranges, a body."""

import argparse
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, BinaryIO

from reput.store_format.faults import StoreError

if TYPE_CHECKING:
    from reput.jobs.outputs.output import NewFile


def add_ranges(parser: argparse.ArgumentParser, when: str) -> None:
    """Add --ranges, a file of all damaged ranges. when: help text on the option it needs."""
    parser.add_argument(
        "--ranges",
        metavar="FILE",
        help=f"write all damaged ranges and missing positions as JSON lines{when}; "
        "reports list the first 1,000 and sum up all by cause",
    )


@contextmanager
def new_ranges(
    arguments: argparse.Namespace, settings: dict[str, str]
) -> Iterator[BinaryIO | None]:
    """The new file of --ranges, if given; it is removed if the job fails. Raises StoreError."""
    ranges = new_file(arguments, "ranges", settings)
    if ranges is None:
        yield None
        return
    with ranges.writing() as output:
        yield output


def new_file(
    arguments: argparse.Namespace, option: str, settings: dict[str, str]
) -> "NewFile | None":
    """The file that an option names, or None. Raises StoreError if it may not be written."""
    path = getattr(arguments, option)
    if not path:
        return None
    from reput.jobs.outputs.output import NewFile, inputs_of
    from reput.store_format.files.by_url import storage_for

    storage = storage_for(arguments.store)
    inputs = inputs_of(storage, storage.resolve(arguments.store), settings)
    file = NewFile(path, tuple(inputs))
    try:
        file.check()
    except StoreError as error:
        raise StoreError(f"--{option} {error}") from None
    return file
