"""Copies files of config/ to a replica, each time before the log to which they refer.

Copied are the files that a slave requests from its master (SlaveSynchronize.syncAll), and those
beside them in every release. Not copied are timercheck (it is derived with timerlog), timermetrics
(a broker makes it anew), the broker's identity, and backups (.bak). If the
source has topics, groups and offsets in RocksDB, files are written from it: a replica's queues are
in files, so its broker reads files.
"""

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from reput.jobs.in_place.install import config_as_json
from reput.store_format.discover.config import Offsets, config_content, config_in_rocksdb
from reput.store_format.files.folder import Folder
from reput.store_format.files.protocol import Files, check_small, read_small, replace_small
from reput.store_format.names import CONFIG, LMQ_OFFSETS, LMQ_PREFIX, OFFSETS
from reput.store_format.rocksdb.database import RocksDBError
from reput.store_format.state_table import config_to_carry

_MOST_BYTES = 256 << 20


def copy_config(
    store: Folder, files: Files, known: Mapping[str, str], positions: bool,
    seen: dict[str, Any],
) -> tuple[dict[str, str], list[str]]:  # fmt: skip
    """Copy the changed files: ({name: SHA-256 of the copy}, warnings).

    known: SHA-256 of earlier copies; a copy that somebody has changed since stays.
    positions: whether to copy those that say how far something is read, which are not for a replica
    that ends before its source does. seen: states of the source's files when last read;
    updated. A file that does not end like JSON is being written, and waits for the next round.
    Raises OSError.
    """
    there = {name: state for name, state in store.listed(CONFIG) if state}
    copied: dict[str, str] = dict(known)
    warnings: list[str] = []
    for name in config_to_carry(positions):
        folder = config_in_rocksdb(store, name)
        if folder is not None:
            _from_rocksdb(folder, name, files, copied, seen, warnings)
            continue
        state = there.get(name) or there.get(f"{name}.bak")  # of a broker killed as it wrote
        if state is None or seen.get(name) == state:
            continue
        if state.size > _MOST_BYTES:
            warnings.append(f"{store}/{CONFIG}/{name}: {state.size} bytes are too many; left out")
            continue
        content = config_content(store, f"{CONFIG}/{name}", []) or b""
        if put_config(files, name, content, copied, warnings):
            seen[name] = state
    return copied, warnings


def _from_rocksdb(
    folder: Folder, name: str, files: Files, copied: dict[str, str],
    seen: dict[str, Any], warnings: list[str],
) -> None:  # fmt: skip
    """Write a file of config/ from the RocksDB that the source's broker uses instead."""
    state = folder.listed()
    if seen.get(name) == state:
        return
    try:
        content = config_as_json(folder, name).encode()
    except RocksDBError as error:
        warnings.append(f"{error}: config/{name} is left out")
        return
    put_config(files, name, content, copied, warnings)
    seen[name] = state


def put_config(
    files: Files, name: str, content: bytes, copied: dict[str, str], warnings: list[str]
) -> bool:
    """Write a file of config/, unless it is unchanged, or somebody has changed the copy; updates
    `copied` and `warnings`. False if `content` is incomplete. Raises OSError.
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


def put_offsets(
    files: Files, offsets: Offsets, of_lmq: bool, copied: dict[str, str], warnings: list[str]
) -> None:
    """Write groups' offsets as files of config/, as `put_config` does.

    of_lmq: in the file of a broker with enableLmq too (LmqConsumerOffsetManager).
    """
    table: dict[str, dict[str, int]] = {}
    light: dict[str, int] = {}
    for (group, topic), queues in offsets.items():
        name = f"{topic}@{group}"
        if of_lmq and group.startswith(LMQ_PREFIX):
            light[name] = queues.get(0, 0)
        else:
            table[name] = {str(queue): offset for queue, offset in queues.items()}
    whole: dict[str, dict[str, Any]] = {OFFSETS: {"offsetTable": table}}
    if of_lmq:
        whole[LMQ_OFFSETS] = {"offsetTable": table, "lmqOffsetTable": light}
    for file, content in whole.items():
        put_config(files, file, json.dumps(content).encode(), copied, warnings)
