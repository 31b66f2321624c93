"""Appends the messages of an export, each to its topic and queue.

Body, properties, flags, hosts and bornTimestamp are kept. queueOffset, physical offset and store
time are new, as for messages copied from another store.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import pyarrow as pa

from reput.broker.writer.copies import append_stored
from reput.broker.writer.writer import CommitLogWriter
from reput.jobs.exporting.file_set import export_manifest
from reput.jobs.exporting.read_back import UNREADABLE, batches_in
from reput.store_format.files.by_url import storage_for
from reput.store_format.log.record import Record
from reput.store_format.message.message import NAME_END, VALUE_END, encode_host
from reput.store_format.message.refusals import Refused
from reput.store_format.release.settings import SettingError
from reput.udfs.table.message_rows import BadRow


class FromExport(NamedTuple):
    """A message of an export. where: its file and number; row: its columns."""

    where: str
    row: dict[str, Any]


def exported_rows(folder: str, skip: int) -> Iterator[FromExport]:
    """The messages of an export after the first `skip`.

    Raises StoreError if the folder is no export, SettingError if it has no bodies.
    """
    storage = storage_for(folder)
    folder = storage.resolve(folder)
    manifest = export_manifest(storage, folder)
    if not manifest["chosen"].get("bodies"):
        raise SettingError(f"--from {folder}: was exported with --no-bodies")
    return _rows(batches_in(storage, folder, manifest), skip)


def _rows(files: Iterator[tuple[str, Iterator[pa.RecordBatch]]], skip: int) -> Iterator[FromExport]:
    for path, batches in files:
        number = 0
        try:
            for batch in batches:
                left_out = min(skip, len(batch))
                skip -= left_out
                number += left_out
                for row in batch.slice(left_out).to_pylist():
                    number += 1
                    yield FromExport(f"{path}: message {number}", row)
        except UNREADABLE as error:
            what = type(error).__name__  # its text may contain parts of a message
            raise BadRow(f"{path}: behind message {number}: cannot be read ({what})") from None


def append_exported(writer: CommitLogWriter, where: str, row: dict[str, Any]) -> None:
    """Append the message of a row. Raises Refused that begins with `where`."""
    try:
        append_stored(writer, _stored(writer, row))
    except Refused as error:
        raise type(error)(f"{where}: {error}") from None
    except (KeyError, TypeError, AttributeError) as error:
        raise BadRow(f"{where}: lacks a column or has one of a wrong type: {error}") from None


def _stored(writer: CommitLogWriter, row: dict[str, Any]) -> Record:
    # in the record's order, which was that of a broker's HashMap
    pairs = [f"{name}{NAME_END}{value}" for name, value in row["properties"]]
    ended = VALUE_END if pairs and writer.profile.property_text_ends else ""
    return Record(
        topic_bytes=row["topic"].encode("utf-8", "replace"),
        queue_id=row["queueId"],
        queue_offset=row["queueOffset"],
        physical_offset=row["physicalOffset"],
        size=row["size"],
        magic=0,
        body_crc=row["bodyCRC"],
        flag=row["flag"],
        sys_flag=row["sysFlag"],
        born_timestamp=row["bornTimestampMillis"],
        born_host=encode_host(row["bornHost"]),
        store_timestamp=row["storeTimestampMillis"],
        store_host=encode_host(row["storeHost"]),
        reconsume_times=row["reconsumeTimes"],
        prepared_offset=row["preparedTransactionOffset"],
        body_at=0,  # the new record has no place yet
        body_length=len(row["body"]),
        body=row["body"],
        properties=(VALUE_END.join(pairs) + ended).encode("utf-8", "replace"),
    )
