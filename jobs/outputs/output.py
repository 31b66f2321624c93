"""Decides for every command whether something may be written.

Whatever the options, nothing is written to a path that is, holds or lies inside an input. And only
a set of reput's own (reput.jobs.outputs.sets) without any other file is ever replaced.
"""

import errno
import os
import stat
import uuid
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import BinaryIO, NamedTuple

from reput.jobs.outputs.sets import SetKind, what_may_go
from reput.store_format.faults import StoreError
from reput.store_format.files.local import LocalStorage, VolumeStorage, open_new
from reput.store_format.files.manifest_last import ManifestLast
from reput.store_format.files.overlap import Whereabouts, relation
from reput.store_format.files.protocol import OutputStorage, Storage, listed
from reput.store_format.names import (
    BATCH_CONSUME_QUEUE,
    COMMIT_LOG,
    CONFIG,
    CONSUME_QUEUE,
    DLEDGER,
    DLEDGER_DATA,
    INDEX,
    MANIFEST,
)

_IN_STORE = (COMMIT_LOG, CONFIG, CONSUME_QUEUE, BATCH_CONSUME_QUEUE, INDEX)
_PATH_SEPARATOR = ","  # MixAll.MULTI_PATH_SPLITTER


class OverlapsInput(StoreError):
    """The output is, holds or lies inside an input."""


class OutputInUse(StoreError):
    """The output folder exists and is not empty."""


class Input(NamedTuple):
    """A path that a job reads, and its storage."""

    storage: Storage
    path: str

    def whereabouts(self) -> Whereabouts:
        try:
            return self.storage.whereabouts(self.path)
        except StoreError:  # a setting's path on another file system than the store
            return LocalStorage().whereabouts(self.path)


def inputs_of(storage: Storage, store: str, settings: Mapping[str, str]) -> list[Input]:
    """A store's root, and each of its folders that links or settings may put elsewhere.

    settings: by RocketMQ's names; all that contain paths of the store count (storePathCommitLog
    with its several paths, readOnlyCommitLogStorePaths, storePathIndex, ...).
    """
    paths = [store, *(f"{store}/{name}" for name in _IN_STORE)]
    for name, state in listed(storage, store):
        if state is None and name.startswith(DLEDGER):
            paths += [f"{store}/{name}", f"{store}/{name}/{DLEDGER_DATA}"]
    for name, value in settings.items():
        if "storepath" in name.lower():
            paths += [path.strip() for path in value.split(_PATH_SEPARATOR)]
    return [Input(storage, path) for path in dict.fromkeys(paths) if path]


def refuse_overlap(storage: OutputStorage, path: str, inputs: Iterable[Input]) -> None:
    """Raise OverlapsInput if `path` is, holds or lies inside an input. Raises OSError."""
    here = storage.whereabouts(path)
    for each in inputs:
        how = relation(here, each.whereabouts())
        if how is not None:
            raise OverlapsInput(
                f"{path}: {how} {each.path}, which is read: nothing is written there; "
                "give another place"
            )


@dataclass(frozen=True)
class Output:
    """A folder that a job publishes to, with the rules of what in it may be replaced."""

    storage: Storage
    path: str
    kind: SetKind
    replace: bool
    inputs: tuple[Input, ...]

    def check(self) -> None:
        """Raise StoreError or OSError if nothing may be published; called before the work."""
        self.may_go(self.path)

    def may_go(self, folder: str) -> list[str]:
        """The content of `folder`, all of which may be deleted. folder: the output, or the old
        output moved elsewhere.

        Called again right before a deletion. Raises OverlapsInput, OutputInUse, StoreError.
        """
        if folder == self.path:
            refuse_overlap(self.storage, folder, self.inputs)
        late = isinstance(self.storage, ManifestLast)
        try:
            if next(iter(self.storage.walk(folder)), None) is None:
                return []
            going = what_may_go(self.storage, folder, self.kind, late)
        except FileNotFoundError:
            return []
        except NotADirectoryError:
            raise StoreError(f"{folder}: is there and is not a folder") from None
        except StoreError as error:
            if self.replace:
                raise
            raise OutputInUse(f"{folder}: is not empty; give another folder ({error})") from None
        if not self.replace and not self._is_half(going):
            raise OutputInUse(
                f"{folder}: is not empty; --replace puts the new set in the place of this one, "
                f"{self.kind.what}"
            )
        return going

    def _is_half(self, going: list[str]) -> bool:
        """Whether a killed job left the files, which the new files then replace."""
        return MANIFEST not in going


@dataclass(frozen=True)
class NewFile:
    """A single local file that a command writes, such as a picture or a report."""

    path: str
    inputs: tuple[Input, ...]

    def check(self) -> None:
        """Raise StoreError if the file exists, cannot be made, or would lie in an input."""
        refuse_overlap(LocalStorage(), self.path, self.inputs)
        if os.path.lexists(self.path):
            raise StoreError(f"{self.path}: is there already, and stays")
        parent = os.path.dirname(os.path.abspath(self.path))
        if not os.path.isdir(parent):
            raise StoreError(f"{parent}: no such folder, for {os.path.basename(self.path)}")

    def write(self, content: bytes) -> None:
        """Check again, and write; a file that was made meanwhile is an error."""
        with self.writing() as file:
            file.write(content)

    @contextmanager
    def writing(self) -> Iterator[BinaryIO]:
        """Check again, and give the new file to the block; it is removed if the block fails."""
        self.check()
        with os.fdopen(open_new(self.path, 0o666), "wb") as file:
            try:
                yield file
            except BaseException:
                os.unlink(self.path)
                raise


@dataclass(frozen=True)
class WholeFile(NewFile):
    """A single local file that exists whole or not at all, whatever ends the command.

    begins: first bytes of a file of this kind; replace: whether such a file is replaced.
    """

    begins: bytes
    replace: bool

    def check(self) -> None:
        """As for a NewFile, but with `replace` a file of this kind may exist."""
        if not (self.replace and self._is_there_and_ours()):
            super().check()
            return
        refuse_overlap(LocalStorage(), self.path, self.inputs)

    def _is_there_and_ours(self) -> bool:
        """Raises StoreError if something else is there."""
        try:
            descriptor = os.open(self.path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        except FileNotFoundError:
            return False
        except OSError as error:
            why = "is a link" if error.errno == errno.ELOOP else error.strerror
            raise StoreError(f"{self.path}: {why}; it stays") from None
        try:
            regular = stat.S_ISREG(os.fstat(descriptor).st_mode)
            if not regular or os.read(descriptor, len(self.begins)) != self.begins:
                raise StoreError(f"{self.path}: is none that this command wrote, and stays")
        finally:
            os.close(descriptor)
        return True

    @contextmanager
    def writing(self) -> Iterator[BinaryIO]:
        """Check again, and give the block a temporary file, which is renamed after the block."""
        self.check()
        if VolumeStorage.is_for(os.path.abspath(self.path)):
            # a volume cannot rename files, and a file appears whole when it is closed
            if os.path.lexists(self.path):
                os.unlink(self.path)
            with super().writing() as file:
                yield file
            return
        folder, name = os.path.split(os.path.abspath(self.path))
        part = f"{folder}/.{name[:100]}.{uuid.uuid4().hex}.part"
        with os.fdopen(open_new(part, 0o666), "wb") as file:
            try:
                yield file
                file.flush()
                os.fsync(file.fileno())
                self.check()
                self._name(part)
            except OSError as error:
                error.filename = error.filename or self.path  # else the message names no disk
                raise
            finally:
                if os.path.lexists(part):
                    os.unlink(part)

    def _name(self, part: str) -> None:
        if not self.replace:
            try:
                os.link(part, self.path)  # fails if a file was made meanwhile
                return
            except FileExistsError:
                raise StoreError(f"{self.path}: is there already, and stays") from None
            except OSError as error:
                if error.errno not in (errno.EPERM, errno.ENOTSUP, errno.ENOSYS, errno.EMLINK):
                    raise
        os.rename(part, self.path)
