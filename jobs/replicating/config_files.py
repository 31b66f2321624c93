"""Which files of config/ go to a replica, and when: before the log that they tell of.

Those that a slave asks its master for (SlaveSynchronize.syncAll), and those that are beside them in
every release. Not copied: the timer's (timercheck and timermetrics tell of timerlog, which is not
copied either; a broker makes both anew), who the broker is, backups (.bak). Of a broker that keeps
topics, groups and offsets in RocksDB these files are written from that: a replica's queues are in
files, and so is what its broker reads.
"""

import hashlib
from collections.abc import Mapping
from typing import Any

from reput.jobs.in_place.convert_config import config_as_json
from reput.store_format.discover.in_rocksdb import config_in_rocksdb
from reput.store_format.disk.files import Files
from reput.store_format.disk.small_files import check_small, read_small, replace_small
from reput.store_format.names import CONFIG
from reput.store_format.storage.listing import listed
from reput.store_format.storage.protocol import InputStorage
from reput.store_format.storage.rocksdb import RocksDBError

KINDS = (
    "topics.json", "subscriptionGroup.json", "topicQueueMapping.json", "messageRequestMode.json",
    "consumerFilter.json",
)  # fmt: skip
# How far somebody has come in the log: not for a replica that ends before the source does.
POSITIONS = (
    "consumerOffset.json", "delayOffset.json", "consumerOrderInfo.json", "lmqConsumerOffset.json",
    "broadcastOffset.json",
)  # fmt: skip
_MOST_BYTES = 256 << 20


def copy_config(
    storage: InputStorage, store: str, files: Files, known: Mapping[str, str], positions: bool,
    seen: dict[str, Any],
) -> tuple[dict[str, str], list[str]]:  # fmt: skip
    """Copy what has changed. Returns each copied file's SHA-256, and warnings.

    known: those that were copied before: one that somebody has changed since stays. positions:
    also how far consumers have come. seen: the source's files as they were when they were looked
    at; added to. A file that is being written, so that it does not end as
    JSON does, waits for the next round. Raises OSError.
    """
    there = {name: state for name, state in listed(storage, f"{store}/{CONFIG}") if state}
    copied: dict[str, str] = dict(known)
    warnings: list[str] = []
    for name in (*KINDS, *(POSITIONS if positions else ())):
        folder = config_in_rocksdb(storage, store, name)
        if folder is not None:
            _from_rocksdb(storage, folder, name, files, copied, seen, warnings)
            continue
        state = there.get(name)
        if state is None or seen.get(name) == state:
            continue
        if state.size > _MOST_BYTES:
            warnings.append(f"{store}/{CONFIG}/{name}: {state.size} bytes are too many; left out")
            continue
        content = storage.read_bytes(f"{store}/{CONFIG}/{name}")
        if put_config(files, name, content, copied, warnings):
            seen[name] = state
    return copied, warnings


def _from_rocksdb(
    storage: InputStorage, folder: str, name: str, files: Files, copied: dict[str, str],
    seen: dict[str, Any], warnings: list[str],
) -> None:  # fmt: skip
    """Write a file of config/ from the RocksDB that a broker reads in its place."""
    state = listed(storage, folder)
    if seen.get(name) == state:
        return
    try:
        content = config_as_json(storage, folder, name).encode()
    except RocksDBError as error:
        warnings.append(f"{error}: config/{name} is left out")
        return
    put_config(files, name, content, copied, warnings)
    seen[name] = state


def put_config(
    files: Files, name: str, content: bytes, copied: dict[str, str], warnings: list[str]
) -> bool:
    """Write one file of config/, unless it is there already or was changed by somebody else;
    `copied` and `warnings` are added to. False where it is not all there yet. Raises OSError.
    """
    digest = hashlib.sha256(content).hexdigest()
    if not content.rstrip().endswith(b"}"):
        return False
    if copied.get(name) == digest:
        return True
    path = f"{CONFIG}/{name}"
    if files.exists(path):
        check_small(files, path)
        now = hashlib.sha256(read_small(files, path, _MOST_BYTES)).hexdigest()
        if now not in (copied.get(name), digest):
            said = f"{path}: was changed in the target, and stays as it is"
            if said not in warnings:
                warnings.append(said)
            return True
    files.make_folder(CONFIG)
    replace_small(files, path, content)
    files.sync_folder(CONFIG)
    copied[name] = digest
    return True
