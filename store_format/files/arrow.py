"""Google Cloud Storage, Azure and HDFS's RPC port, by the file systems that pyarrow brings.

`gs://BUCKET/KEY`, `abfss://CONTAINER@ACCOUNT.dfs.core.windows.net/KEY`, `hdfs://HOST:PORT/PATH`.
Credentials are found as each provider's own tools find them. pyarrow has no version of a file, so
its length and time of change are compared when it is opened and when it is closed.
"""

import errno
import os
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any, NamedTuple

from pyarrow import ArrowException, fs

from reput.store_format.faults import StoreChanged, StoreError
from reput.store_format.files import manifest_last
from reput.store_format.files.overlap import Whereabouts, by_key
from reput.store_format.files.protocol import Bytes, FileState, Listed

_KINDS = {"gs": "gs", "gcs": "gs", "abfs": "abfss", "abfss": "abfss", "hdfs": "hdfs"}
_GS_EMULATOR = "STORAGE_EMULATOR_HOST"  # as Google's own clients call it
_AZURE = "AZURE_STORAGE_CONNECTION_STRING"  # as Azure's own clients call it
_WITH_FOLDERS = ("abfss", "hdfs")  # here a file can only be made in an existing folder
_FOLDER = fs.FileType.Directory
_URL = re.compile(r"^([a-z]+)://([^/]*)(?:/+(.*?))?/*$", re.IGNORECASE)


class _Place(NamedTuple):
    """A URL's parts: `gs`, `abfss` or `hdfs`; bucket, container@account or host; key or path."""

    kind: str
    authority: str
    key: str

    @property
    def url(self) -> str:
        return f"{self.kind}://{self.authority}/{self.key}".rstrip("/")

    @property
    def path(self) -> str:
        """The path as the file system takes it."""
        if self.kind == "hdfs":
            return f"/{self.key}"
        return f"{self.authority.partition('@')[0]}/{self.key}".rstrip("/")


def _place(url: str) -> _Place:
    found = _URL.match(url)
    kind = _KINDS.get(found[1].lower()) if found else None
    if not found or kind is None or not found[2] or ":" in found[2].rpartition("@")[0]:
        raise StoreError(
            "such a URL is gs://BUCKET/KEY, abfss://CONTAINER@ACCOUNT.dfs.core.windows.net/KEY or "
            "hdfs://HOST:PORT/PATH; keys and secrets go into the environment"
        )
    return _Place(kind, found[2], found[3] or "")


@cache
def _file_system(process: int, kind: str, authority: str) -> Any:
    """The file system for this process, made from its environment. Raises StoreError."""
    emulator = os.environ.get(_GS_EMULATOR) if kind == "gs" else None
    if emulator:
        scheme, _, host = emulator.rpartition("://")
        return fs.GcsFileSystem(
            anonymous=True, scheme=scheme or "http", endpoint_override=host.rstrip("/")
        )
    try:
        if kind == "abfss" and os.environ.get(_AZURE):
            return _azure(authority, os.environ[_AZURE])
        return fs.FileSystem.from_uri(f"{kind}://{authority}/")[0]
    except (OSError, ArrowException) as error:
        hint = "; webhdfs://HOST:9870/PATH needs no Java" if kind == "hdfs" else ""
        raise StoreError(f"{kind}://{authority}: {_first_line(error)}{hint}") from None


def _azure(authority: str, connection: str) -> Any:
    """The file system of an account, by a connection string as Azure's portal shows it.

    Raises StoreError if the string is for another account than the URL.
    """
    parts = dict(part.strip().partition("=")[::2] for part in connection.split(";") if part.strip())
    name = parts.get("AccountName", "")
    if authority.rpartition("@")[2].partition(".")[0] != name:
        raise StoreError(f"abfss://{authority}: {_AZURE} is for the account {name!r}")
    words = {}
    if "BlobEndpoint" in parts:  # an emulator, or a cloud of its own
        for service in ("blob", "dfs"):
            endpoint = parts.get(f"{service.capitalize()}Endpoint", parts["BlobEndpoint"])
            scheme, _, host = endpoint.partition("://")
            words[f"{service}_storage_scheme"] = scheme
            words[f"{service}_storage_authority"] = host.partition("/")[0]
    return fs.AzureFileSystem(name, account_key=parts.get("AccountKey"), **words)


def _of(place: _Place) -> Any:
    return _file_system(os.getpid(), place.kind, place.authority)


@contextmanager
def _in_words(url: str) -> Iterator[None]:
    """Turn pyarrow's errors into ours, with the URL."""
    try:
        yield
    except FileNotFoundError:
        raise FileNotFoundError(errno.ENOENT, "no such file", url) from None
    except (OSError, ArrowException) as error:
        raise OSError(f"{url}: {_first_line(error)}") from None


def _first_line(error: BaseException) -> str:
    return (str(error) or type(error).__name__).splitlines()[0]


def _state(about: Any) -> FileState:
    return FileState(int(about.size), int(about.mtime_ns or 0), "")


class ArrowStorage(manifest_last.ManifestLast):
    """A file system of pyarrow. Google's folders appear and vanish with their files."""

    def resolve(self, path: str) -> str:
        return _place(path).url

    def list(self, folder: str) -> list[Listed]:
        # pyarrow lists Google's folders without a marker only in a recursive listing.
        below = self._below(folder, recursive=_place(folder).kind == "gs")
        listed = {}
        for name, state in below:
            first, _, rest = name.partition("/")
            listed[first] = Listed(first, None if rest else state)
        return sorted(listed.values(), key=lambda one: one.name)

    def walk(self, folder: str) -> Iterator[Listed]:
        """All below a folder, in one listing. Raises as `list` does."""
        for name, state in self._below(folder, recursive=True):
            yield Listed(name if state else f"{name}/", state)

    def _below(self, folder: str, recursive: bool) -> Iterator[Listed]:
        place, about = _place(folder), self._info(folder)
        if about.type == fs.FileType.File:
            raise NotADirectoryError(errno.ENOTDIR, "is a file", folder)
        if about.type == fs.FileType.NotFound:
            raise FileNotFoundError(errno.ENOENT, "no such folder", folder)
        with _in_words(folder):
            found = _of(place).get_file_info(fs.FileSelector(place.path, recursive=recursive))
        for each in found:
            name = each.path[len(place.path) :].strip("/")
            yield Listed(name, _state(each) if each.type == fs.FileType.File else None)

    def _info(self, path: str) -> Any:
        place = _place(path)
        with _in_words(path):
            return _of(place).get_file_info(place.path)

    def whereabouts(self, path: str) -> Whereabouts:
        """By bucket, container and account, or host; and by key."""
        place = _place(path)
        return by_key((place.kind, place.authority.lower()), place.key)

    def open(self, path: str, state: FileState | None = None) -> "ArrowReader":
        return ArrowReader(path, state)

    def create(self, path: str, digest: bool = False, published: bool = False) -> "ArrowWriter":
        """A new file, which appears when it is finished and replaces an older one of its name."""
        return ArrowWriter(path, digest)

    def has_folder(self, path: str) -> bool:
        return _place(path).kind not in _WITH_FOLDERS or self._info(path).type == _FOLDER

    def make_folders(self, path: str) -> None:
        place = _place(path)
        if place.kind in _WITH_FOLDERS:
            with _in_words(path):
                _of(place).create_dir(place.path, recursive=True)

    def move_all(self, moves: Iterable[tuple[str, str]]) -> None:
        manifest_last.for_all(_move, moves)

    def remove(self, path: str) -> None:
        place = _place(path)
        # HDFS has one error for a missing file and one that cannot be removed
        if place.kind == "hdfs" and self._info(path).type == fs.FileType.NotFound:
            return
        try:
            with _in_words(path):
                _of(place).delete_file(place.path)
        except FileNotFoundError:
            return

    def remove_all(self, paths: Iterable[str]) -> None:
        manifest_last.for_all(self.remove, paths)

    def remove_folder(self, path: str) -> None:
        """Remove an empty folder, if the file system has folders."""
        place = _place(path)
        try:
            if not self.list(path):
                with _in_words(path):
                    _of(place).delete_dir(place.path)
        except FileNotFoundError:
            return

    def remove_tree(self, folder: str) -> None:
        place = _place(folder)
        try:
            with _in_words(folder):
                _of(place).delete_dir(place.path)
        except OSError:
            return


def _move(names: tuple[str, str]) -> None:
    source, to = (_place(name) for name in names)
    files = _of(source)
    with _in_words(to.url):
        try:
            files.move(source.path, to.path)
        except NotImplementedError:  # an account of Azure's without folders: copied within it
            files.copy_file(source.path, to.path)
            files.delete_file(source.path)


class ArrowReader(manifest_last.WatchedReader):
    _file: Any = None

    def _now(self) -> FileState:
        place = _place(self.path)
        with _in_words(self.path):
            about = _of(place).get_file_info(place.path)
        if about.type != fs.FileType.File:
            raise FileNotFoundError(errno.ENOENT, "no such file", self.path)
        return _state(about)

    def read_into(self, offset: int, buffer: Bytes) -> None:
        view = memoryview(buffer.data).cast("B")
        if offset + len(view) > self.state.size:
            raise StoreChanged(f"{self.path}: ends before offset {offset + len(view)}")
        place, done = _place(self.path), 0
        with _in_words(self.path):
            if self._file is None:
                self._file = _of(place).open_input_file(place.path)
            self._file.seek(offset)
            while done < len(view):
                count = self._file.readinto(view[done:])
                if not count:
                    break
                done += count
        if done < len(view):
            raise StoreChanged(f"{self.path}: ends before offset {offset + len(view)}")

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None
        super().close()


class ArrowWriter(manifest_last.SequentialWriter):
    """A stream, in parts of some MiB that pyarrow holds."""

    def __init__(self, path: str, digest: bool) -> None:
        super().__init__(path, digest)
        self._place = _place(path)
        with _in_words(path):
            self._stream = _of(self._place).open_output_stream(self._place.path, compression=None)

    def _send(self, view: memoryview) -> None:
        with _in_words(self.path):
            self._stream.write(view)

    def _close(self) -> None:
        with _in_words(self.path):
            self._stream.close()

    def abandon(self) -> None:
        # A dropped stream would still complete its file: so it is closed, then the file removed.
        self._close()
        with _in_words(self.path):
            _of(self._place).delete_file(self._place.path)
