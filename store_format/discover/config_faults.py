"""What a broker cannot read of its configuration: a file of config/ that a power loss cut, a
RocksDB that cannot be opened, or is gone; and a setting by which it deletes the log's end.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from itertools import islice
from typing import Any, NamedTuple

from reput.store_format.discover.config import config_in_rocksdb, has_database
from reput.store_format.faults import NotAFile, StoreError
from reput.store_format.files.adapters import LiveFiles
from reput.store_format.files.folder import Folder
from reput.store_format.files.protocol import InputStorage
from reput.store_format.java import quoted_keys
from reput.store_format.log.groups import heads_from
from reput.store_format.log.properties import CRC_PROPERTY_NAME
from reput.store_format.log.reader import LogReader
from reput.store_format.log.rules import record_rules
from reput.store_format.log.segments import Segment
from reput.store_format.names import CONFIG
from reput.store_format.release.profiles import RELEASES, profile
from reput.store_format.rocksdb.database import RocksDBError, RocksDBMissing, open_database
from reput.store_format.state_table import CONFIG_DBS, CONFIG_ROWS, FILES, Copies

_NO_FILE, _EMPTY, _NO_OBJECT = "is missing", "is empty", "holds no object"
_FOLDER = "is a folder"  # as a container's mount of a file that was not there makes it
FORCED = "forceVerifyPropCRC"
_RECOVERED = 3  # segments that a broker reads when it starts after a clean stop
_SPARE_COMMA = re.compile(rb",(\s*[}\]])")


class ConfigFault(NamedTuple):
    """A file of config/, or a RocksDB of the broker's own, that it cannot read as it is."""

    path: str
    reason: str  # with what a broker does then
    todo: str  # '' where a broker reads the .bak

    def __str__(self) -> str:
        return f"{self.path}: {self.reason}"


def config_faults(store: Folder, in_use: bool = False) -> list[ConfigFault]:
    """The files of config/ by which a broker starts without what they held, or not at all: a power
    loss leaves NULs in them, or nothing. So it does in CURRENT of a RocksDB of the broker's own.

    in_use: a broker has the RocksDBs open, which are not tried then.
    ConfigManager.load: the .bak is read where the file is missing, empty or no JSON; a .bak that is
    no JSON ends the start, and without one a broker starts as if it were new.
    """
    found = []
    names = cache(lambda folder: dict(store.listed(folder)))
    for row in (row for row in FILES if row.holds):
        path, file, what = f"{store}/{row.path}", row.name, row.holds
        folder = row.path.rpartition("/")[0]
        both = (file, f"{file}.bak")
        if not names(folder).keys() & {*both} or config_in_rocksdb(store, file):
            continue
        fault, of_bak = (_fault(store, f"{folder}/{name}", names(folder)) for name in both)
        if not fault or (fault == _NO_FILE and not of_bak):
            continue  # a broker that is killed while it writes the file leaves the .bak alone
        if not of_bak and fault != _NO_OBJECT:
            reason, todo = f"{fault}; a broker reads {file}.bak, which is older", ""
        elif of_bak in (_NO_FILE, _EMPTY) or fault == _NO_OBJECT:
            reason = f"{fault}, and there is no {file}.bak to read: a broker starts without {what}"
            todo = f"restore {path} from a backup, while no broker runs"
        else:
            reason = f"{fault}, and {file}.bak {of_bak}: no broker starts"
            todo = f"restore {path} from a backup, while no broker runs"
            if row.needed:
                todo += f"; with both moved away one starts, without {what}"
            else:
                reason = f"{fault}, and {file}.bak {of_bak}: a broker starts without {what}"
        if fault == _FOLDER:  # ConfigManager.persist fails, which is only logged
            reason += "; what it would write there is lost"
            todo = todo or f"restore {path} from a backup, while no broker runs"
        found.append(ConfigFault(path, reason, todo))
    return found if in_use else [*found, *_database_faults(store), *_missing(store)]


def _missing(store: Folder) -> Iterator[ConfigFault]:
    """RocksDBs of config/ that are gone, where a broker made the others too."""
    names = {name for name, _ in store.listed(CONFIG)}
    own = {databases[0]: file for file, databases in CONFIG_DBS.items()}
    there = [name for name in own if has_database(store / CONFIG / name)]
    for name, file in own.items() if there else ():
        if not names & {name, file, f"{file}.bak", *CONFIG_DBS[file]}:
            yield ConfigFault(
                path := f"{store}/{CONFIG}/{name}",
                f"is missing beside {there[0]}: a broker starts without {CONFIG_ROWS[file].holds}",
                f"restore {path} from a backup, while no broker runs",
            )


def _database_faults(store: Folder) -> Iterator[ConfigFault]:
    """The RocksDBs beside queues that cannot be opened; none where the library is missing."""
    for row in FILES:
        folder = store / row.path.rpartition("/")[0]
        if row.copies == Copies.CARRY and row.name == "<rocksdb>" and has_database(folder):
            try:
                open_database(folder).close()
            except RocksDBMissing:
                return
            except RocksDBError as error:
                said = error.reason.removesuffix(f": {error.remedy}")
                todo = error.remedy.replace("a copy of it", f"a copy of {folder}", 1)
                yield ConfigFault(folder.path, f"{said}: no broker that uses it starts", todo)


def _fault(store: Folder, path: str, there: Mapping[str, object]) -> str:
    """Why a broker cannot take a file's content; '' if it can. there: what its folder holds."""
    name = path.rpartition("/")[2]
    try:
        if name not in there:
            return _NO_FILE
        raw = store.read(path)
    except NotAFile:
        return _FOLDER
    except StoreError:
        if there[name] is not None:
            raise
        return _NO_FILE  # a link, which is not followed
    if not raw:
        return _EMPTY
    if not raw.strip(b"\0"):
        return "holds only NULs"
    try:
        # fastjson passes over a comma before a bracket, which somebody's edit may have left
        whole = json.loads(_SPARE_COMMA.sub(rb"\1", quoted_keys(raw)) if raw.strip() else b"null")
    except (ValueError, RecursionError):
        return "is not JSON"
    return "" if isinstance(whole, dict) else _NO_OBJECT


def unsealed(storage: InputStorage, segments: Sequence[Segment], at: int = 0) -> bool:
    """Whether the records of `segments[at]` begin without `__CRC32#`: they were put before
    enabledAppendPropCRC, and the log proves that forceVerifyPropCRC asks too much of them.
    """
    rules = record_rules(profile(RELEASES[-1]), heads_from(segments))
    with LogReader(LiveFiles(storage), list(segments), rules) as log:
        try:
            starts = [each.start for each in segments[at : at + 1]]
            found = [each for start in starts for each in islice(log.records(start), 3)]
        except StoreError:
            return False
    return bool(found) and not any(CRC_PROPERTY_NAME in each.properties for each in found)


def seal_faults(
    storage: InputStorage, segments: Sequence[Segment], found: Mapping[str, Any]
) -> Iterator[ConfigFault]:
    """What forceVerifyPropCRC does to a log that began without `__CRC32#`, if anything: a broker
    looks at its last segments (CommitLog.recoverNormally). found: what the store shows.
    """
    first = max(len(segments) - _RECOVERED, 0)
    if FORCED in found and not found[FORCED].value and unsealed(storage, segments, first):
        reason = (
            f"{FORCED}=true, but records have no __CRC32# (enabledAppendPropCRC): they are read "
            "without it, and a broker that starts so deletes the log from the first of them on"
        )
        todo = f"leave {FORCED} out until all records of the last {_RECOVERED} segments have it"
        yield ConfigFault(segments[first].path, reason, todo)
