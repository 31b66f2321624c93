"""Files of HDFS over HTTP (WebHDFS), by `webhdfs://namenode:9870/path` URLs; swebhdfs is TLS.

Simple authentication only: the user is the URL's, else HADOOP_USER_NAME, else the login's name.
A file's state has its HDFS fileId, which differs for a new file of the same name.
"""

import errno
import getpass
import http.client
import json
import os
import uuid
from collections.abc import Iterable
from typing import Any, NamedTuple
from urllib.parse import quote, urlencode, urlsplit

from reput.store_format.faults import StoreChanged, StoreError
from reput.store_format.files.manifest_last import ManifestLast, SequentialWriter, WatchedReader
from reput.store_format.files.overlap import Whereabouts, by_key, by_parts
from reput.store_format.files.protocol import PART, Bytes, FileState, Listed, put_as

_SECONDS = 60  # without a byte from the other side
_SEND_BYTES = 1 << 20
_FILE_MODE, _FOLDER_MODE = "600", "700"


class _Place(NamedTuple):
    """A URL's parts; the path is absolute."""

    secure: bool
    host: str
    user: str
    path: str


def _place(url: str) -> _Place:
    parts = urlsplit(url)
    if parts.scheme not in ("webhdfs", "swebhdfs") or not parts.hostname or parts.password:
        raise StoreError("an HDFS URL is webhdfs://[USER@]HOST:PORT/PATH, without a password")
    user = parts.username or os.environ.get("HADOOP_USER_NAME") or getpass.getuser()
    path = "/" + url.split("//", 1)[1].partition("/")[2].strip("/")  # '?' and '#' are in names
    host = parts.netloc.rpartition("@")[2]
    return _Place(parts.scheme == "swebhdfs", host, user, path)


def _connect(secure: bool, host: str) -> http.client.HTTPConnection:
    kind = http.client.HTTPSConnection if secure else http.client.HTTPConnection
    return kind(host, timeout=_SECONDS)


def _ask(url: str, method: str, operation: str, **parameters: object) -> http.client.HTTPResponse:
    """One answer of the namenode, whose body is not read yet. Raises OSError."""
    place = _place(url)
    query = urlencode({"op": operation, "user.name": place.user, **parameters})
    try:
        connection = _connect(place.secure, place.host)
        connection.request(method, f"/webhdfs/v1{quote(place.path)}?{query}")
        answer = connection.getresponse()
    except (OSError, http.client.HTTPException) as error:
        raise OSError(
            f"{url}: {place.host} does not answer: {error or type(error).__name__}"
        ) from None
    if answer.status >= 400:
        raise _failure(url, answer.status, answer.read())
    return answer


def _at_datanode(url: str, answer: http.client.HTTPResponse) -> tuple[Any, str]:
    """(connection to the datanode that the namenode's answer names, the request's path there)."""
    answer.read()
    there = urlsplit(answer.headers["Location"] or "")
    if answer.status != 307 or not there.hostname:
        raise OSError(f"{url}: the namenode names no datanode (status {answer.status})")
    return _connect(there.scheme == "https", there.netloc), f"{there.path}?{there.query}"


def _failure(url: str, status: int, raw: bytes) -> Exception:
    try:
        said = json.loads(raw)["RemoteException"]
    except (ValueError, KeyError, TypeError):
        return OSError(f"{url}: the server gives no reason (HTTP status {status})")
    kind, message = str(said.get("exception")), str(said.get("message")).split("\n")[0]
    if kind == "FileNotFoundException":
        return FileNotFoundError(errno.ENOENT, "no such file", url)
    if kind == "FileAlreadyExistsException":
        return FileExistsError(errno.EEXIST, "is there already", url)
    if kind in ("AccessControlException", "SecurityException"):
        return PermissionError(errno.EACCES, message, url)
    if "out of the range" in message:  # DatanodeWebHdfsMethods, where offset is past the end
        return StoreChanged(f"{url}: is shorter than it was")
    return OSError(f"{url}: {kind}: {message}")


def _json(url: str, method: str, operation: str, **parameters: object) -> Any:
    return json.loads(_ask(url, method, operation, **parameters).read() or b"{}")


def _state(about: dict[str, Any]) -> FileState:
    return FileState(about["length"], about["modificationTime"] * 1_000_000, about["fileId"])


def _root(url: str) -> str:
    scheme, _, rest = url.partition("//")
    return f"{scheme}//{rest.partition('/')[0]}"


def _folder_number(url: str) -> tuple[str, int, int] | None:
    """A name of a folder or file that is unique among clusters; None if it does not exist."""
    try:
        about = _json(url, "GET", "GETFILESTATUS")["FileStatus"]
    except FileNotFoundError:
        return None
    return "hdfs number", about["fileId"], about["modificationTime"]


class WebHdfsStorage(ManifestLast):
    """HDFS: folders are real, and a file's rename is one step."""

    def resolve(self, path: str) -> str:
        _place(path)
        return path.rstrip("/")

    def list(self, folder: str) -> list[Listed]:
        found = _json(folder, "GET", "LISTSTATUS")["FileStatuses"]["FileStatus"]
        if len(found) == 1 and not found[0]["pathSuffix"]:
            raise NotADirectoryError(errno.ENOTDIR, "is a file", folder)
        listed = [
            Listed(about["pathSuffix"], _state(about) if about["type"] == "FILE" else None)
            for about in found
        ]
        return sorted(listed, key=lambda one: one.name)

    def whereabouts(self, path: str) -> Whereabouts:
        """By host and path, and by the fileIds of the folders.

        A cluster may have several hosts, ports and schemes; a folder is the same if its fileId and
        time of change are. Raises StoreError, OSError.
        """
        place = _place(path)
        parts = [part for part in place.path.split("/") if part]
        if {".reserved", ".", ".."} & set(parts):
            raise StoreError(f"{path}: .reserved, . and .. are no names of an output or a store")
        found = by_key(("hdfs", place.host.lower()), place.path)
        numbers = [
            _folder_number(f"{_root(path)}/{'/'.join(parts[:depth])}")
            for depth in range(1, len(parts) + 1)
        ]
        known = [each for each in numbers if each]
        missing = parts[len(known) :]
        if not known:
            return found
        below = by_parts(known[-1], missing)
        return found | Whereabouts(below.itself, below.above | frozenset(known[:-1]))

    def open(self, path: str, state: FileState | None = None) -> "WebHdfsReader":
        return WebHdfsReader(path, state)

    def create(self, path: str, digest: bool = False, published: bool = False) -> "WebHdfsWriter":
        """A new file. Raises FileExistsError."""
        return WebHdfsWriter(path, digest)

    puts_once = True

    def put_new(self, path: str, content: Any) -> bool:
        """By a rename, which HDFS refuses where there is such a file."""
        part = f"{path}.{uuid.uuid4().hex}{PART}"
        put_as(self, part, content)
        made = bool(_json(part, "PUT", "RENAME", destination=_place(path).path)["boolean"])
        if not made:
            self.remove(part)
        return made

    def make_folders(self, path: str) -> None:
        if not _json(path, "PUT", "MKDIRS", permission=_FOLDER_MODE)["boolean"]:
            raise OSError(f"{path}: the folder cannot be made")

    def move_all(self, moves: Iterable[tuple[str, str]]) -> None:
        for path, to in moves:
            if not _json(path, "PUT", "RENAME", destination=_place(to).path)["boolean"]:
                raise OSError(f"{to}: cannot be given as a name to {path}")

    def remove(self, path: str) -> None:
        _json(path, "DELETE", "DELETE", recursive="false")

    def remove_tree(self, folder: str) -> None:
        try:
            _json(folder, "DELETE", "DELETE", recursive="true")
        except OSError:
            return


def _read_into(url: str, view: memoryview, offset: int) -> None:
    """Fill `view` from `offset`. Raises StoreChanged if the file is too short."""
    connection, there = _at_datanode(url, _ask(url, "GET", "OPEN", offset=offset, length=len(view)))
    done = 0
    try:
        connection.request("GET", there)
        answer = connection.getresponse()
        if answer.status >= 400:
            raise _failure(url, answer.status, answer.read())
        while done < len(view):
            count = answer.readinto(view[done:])
            if not count:
                raise StoreChanged(f"{url}: ends before offset {offset + len(view)}")
            done += count
    except http.client.HTTPException as error:
        raise OSError(f"{url}: the connection broke: {error!r}") from None
    finally:
        connection.close()


class WebHdfsReader(WatchedReader):
    """Reads ranges, each over a connection of its own to a datanode that has them."""

    def _now(self) -> FileState:
        return _state(_json(self.path, "GET", "GETFILESTATUS")["FileStatus"])

    def read_into(self, offset: int, buffer: Bytes) -> None:
        if len(buffer):
            _read_into(self.path, memoryview(buffer.data).cast("B"), offset)


class WebHdfsWriter(SequentialWriter):
    """Streams to a datanode; holds only the bytes of the last write."""

    def __init__(self, path: str, digest: bool) -> None:
        super().__init__(path, digest)
        answer = _ask(path, "PUT", "CREATE", overwrite="false", permission=_FILE_MODE)
        self._connection, there = _at_datanode(path, answer)
        self._connection.putrequest("PUT", there)
        self._connection.putheader("Transfer-Encoding", "chunked")
        self._connection.putheader("Content-Type", "application/octet-stream")
        self._connection.endheaders()

    def _send(self, view: memoryview) -> None:
        for at in range(0, len(view), _SEND_BYTES):
            part = view[at : at + _SEND_BYTES]
            self._connection.send(b"%x\r\n" % len(part))
            self._connection.send(part)
            self._connection.send(b"\r\n")

    def _close(self) -> None:
        try:
            self._connection.send(b"0\r\n\r\n")
            answer = self._connection.getresponse()
            if answer.status >= 400:
                raise _failure(self.path, answer.status, answer.read())
            answer.read()
        except http.client.HTTPException as error:
            raise OSError(f"{self.path}: the connection broke: {error!r}") from None
        finally:
            self._connection.close()

    def abandon(self) -> None:
        # The stream is ended first: otherwise the datanode might make the file after DELETE.
        self._close()
        _json(self.path, "DELETE", "DELETE", recursive="false")
