"""What a broker keeps besides its log, for a repository: which files, and their content at a time
at which none of them changed.
"""

import json
import os
import re
import stat
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import cache
from hashlib import sha256
from typing import NamedTuple

from reput.store_format.faults import StoreChanged
from reput.store_format.files.folder import Folder
from reput.store_format.files.local import LocalStorage
from reput.store_format.files.protocol import FileState, InputStorage
from reput.store_format.files.runs import StateEntry
from reput.store_format.java import quoted_keys
from reput.store_format.log.groups import parse_epochs
from reput.store_format.names import ACL_DBS, BROKER_SETTINGS, CONFIG, EPOCH_FILE, POP_DB
from reput.store_format.state_table import FILES, Copies, Decides, StateFile, folders_of, pattern

BROKER_CONF, PLAIN_ACL = "broker.conf", "plain_acl.yml"
SECRETS = "secrets"
# Settings of users and keys, which a run's object does not tell: broker.conf is kept apart
SECRET_SETTINGS = re.compile("secret|credential|password|accesskey|authenticationuser", re.I)
_LOOKS = 5  # at files that change while they are read
_CARRIED = [row for row in FILES if row.copies == Copies.CARRY and row.decides != Decides.LOG]
# RocksDB makes these anew, or they hold nothing but what it said
_OF_ROCKSDB = re.compile(r"LOCK|LOG(\.old\.\d+)?|.*\.dbtmp", re.ASCII)
_LEFT = (".bak", ".tmp")
Put = Callable[[str, bytes], None]  # keeps a file's content under its SHA-256


class There(NamedTuple):
    """A file to keep. path: below the store, as the repository has it; at: where it is read."""

    path: str
    storage: InputStorage
    at: str
    state: FileState
    left: str = ""  # its .bak, which a broker reads where the file is torn


class Snapshot:
    """The state of a store, taken one or several times; only what has changed is read again."""

    def __init__(
        self, store: Folder, conf: Folder | None, secrets: bool, before: tuple[StateEntry, ...]
    ) -> None:
        """conf: the file of the broker's configuration, if it is known; before: what an earlier run
        has, which is taken over of files that have not changed since.
        """
        self.store, self.secrets, self._conf = store, secrets, conf
        self._known = {each.path: each for each in before}
        self._kept = {each.sha256 for each in before}  # digests that the repository has
        self.warnings: list[str] = []

    def take(self, put: Put, again: bool = False) -> tuple[StateEntry, ...]:
        """The files as they are now; `put` gets what is new. again: after the log was read, all but
        those of before (`of_before`). Raises OSError, StoreError.
        """
        self.warnings.clear()
        for _ in range(_LOOKS):
            there = [each for each in self._files() if not (again and of_before(each.path))]
            for each in there:
                known = self._known.get(each.path)
                if known is None or known.seen != str(each.state):
                    self._read(each, put)
            if _fixed(there) == _fixed(self._files(), again):
                break
        else:
            self.warnings.append(
                f"{self.store}: files changed while they were read, {_LOOKS} times"
            )
        return tuple(self._known[each.path] for each in there if each.path in self._known)

    def _read(self, there: There, put: Put) -> None:
        try:
            content = there.storage.read_bytes(there.at)
            if there.left and not _is_whole(there.path, content):
                older = there.storage.read_bytes(there.left)
                content = older if _is_whole(there.path, older) else content
        except (FileNotFoundError, StoreChanged):  # the next look sees what there is instead
            self._known.pop(there.path, None)
            return
        digest = sha256(content).hexdigest()
        if digest not in self._kept:
            put(digest, content)
            self._kept.add(digest)
        seen = str(there.state) if len(content) == there.state.size else ""
        mode = _mode(there.storage, there.at)
        self._known[there.path] = StateEntry(there.path, digest, len(content), mode, seen)

    def _files(self) -> Iterator[There]:
        """What there is to keep, in the order of the paths."""
        found = {each.path: each for each in self._below("")}
        for path in list(found):
            if path.endswith(_LEFT[0]):  # what a broker reads where it was stopped in between
                kept = found.pop(path)
                own = path.removesuffix(_LEFT[0])
                file = found.get(own)
                found[own] = file._replace(left=kept.at) if file else kept._replace(path=own)
        if self.secrets and self._conf is not None:
            storage, (folder, _, conf) = self._conf.storage, self._conf.path.rpartition("/")
            there = dict(Folder(storage, folder).listed())
            for name, own in ((BROKER_CONF, conf), (PLAIN_ACL, PLAIN_ACL)):
                if (state := there.get(own)) is not None:
                    found.setdefault(name, There(name, storage, f"{folder}/{own}", state))
        yield from (found[path] for path in sorted(found))

    def _below(self, folder: str) -> Iterator[There]:
        for name, state in self.store.listed(folder):
            path = f"{folder}/{name}" if folder else name
            if state is None:
                if _folders().fullmatch(path) and (self.secrets or not _is_secret(path)):
                    yield from self._below(path)
            elif _row(path) is not None and (self.secrets or not _is_secret(path)):
                yield There(path, self.store.storage, f"{self.store}/{path}", state)


def of_before(path: str) -> bool:
    """Whether a file says how far something is done, and so must not know more than the log has."""
    row = _row(path)
    at_offsets = path.startswith((f"{CONFIG}/consumerOffsets/", f"{POP_DB}/"))
    return at_offsets or (row is not None and row.positions)


def _row(path: str) -> StateFile | None:
    if path.endswith(_LEFT[1]) or _OF_ROCKSDB.fullmatch(path.rpartition("/")[2]):
        return None
    return next((row for row in _CARRIED if pattern(row).fullmatch(path)), None)


@cache
def _folders() -> re.Pattern[str]:
    whole = dict.fromkeys(each for row in _CARRIED for each in folders_of(row))
    return re.compile("|".join(whole), re.ASCII)


def _is_whole(path: str, content: bytes) -> bool:
    """Whether a broker can read a file that it keeps with a .bak."""
    row = _row(path)
    try:
        if path == EPOCH_FILE:
            return parse_epochs(content) is not None
        of_json = row is not None and row.holds
        return not of_json or isinstance(json.loads(quoted_keys(content)), dict)
    except (ValueError, RecursionError):
        return False


def _is_secret(path: str) -> bool:
    first, _, rest = path.partition("/")
    return first == CONFIG and rest.partition("/")[0].partition(".bak")[0] in (
        *ACL_DBS, BROKER_SETTINGS,
    )  # fmt: skip


def _fixed(there: Iterable[There], again: bool = False) -> list[tuple[str, FileState]]:
    """The files whose change matters: the end of a RocksDB's write-ahead log does not."""
    found = [(each.path, each.state) for each in there if not (again and of_before(each.path))]
    return [each for each in found if not re.search(r"/\d+\.log$", each[0], re.ASCII)]


def _mode(storage: InputStorage, path: str) -> int:
    if not isinstance(storage, LocalStorage):
        return 0o644
    with suppress(FileNotFoundError):
        return stat.S_IMODE(os.stat(path).st_mode) & 0o777
    return 0o600
