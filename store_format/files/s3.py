"""Objects of S3, or of a server with its protocol, by `s3://bucket/key` URLs, through botocore.

A segment's state has its ETag, and each read asks for that version: another version is an error. S3
can neither append nor rename: a new name is given by a copy within S3.
"""

import errno
import os
import re
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

from reput.store_format.faults import StoreChanged, StoreError
from reput.store_format.files.manifest_last import AT_ONCE, ManifestLast, SequentialWriter, for_all
from reput.store_format.files.overlap import Whereabouts, by_key
from reput.store_format.files.protocol import Bytes, FileState, Listed

try:
    import botocore.config
    import botocore.session
    from botocore.exceptions import (
        BotoCoreError,
        ClientError,
        HTTPClientError,
        IncompleteReadError,
        NoCredentialsError,
    )
except ImportError as error:
    raise StoreError(
        f"s3:// needs botocore, which {sys.executable} does not have ({error}): install boto3 or "
        f"botocore on the driver and on all workers"
    ) from None

_PART_BYTES = 8 << 20  # of a multipart upload, held by a writer; 10,000 are 80 GB
_DELETED_AT_ONCE = 1000  # objects, in one request
_TRIES = 5  # of a read whose connection breaks
_ATTEMPTS = 10  # of a request that is refused for now (503), with pauses of up to 20 s
_URL = re.compile(r"^s3[an]?://([^/@]+)(?:/+(.*?))?/*$", re.IGNORECASE)


@cache
def _client(process: int) -> Any:
    """The client of a process, made from its environment as by AWS's own tools."""
    # A server that is given by its address finds buckets by path, not by host name.
    named = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL")
    chosen = os.environ.keys() & {"AWS_MAX_ATTEMPTS", "AWS_RETRY_MODE"}
    config = botocore.config.Config(
        max_pool_connections=AT_ONCE,
        s3={"addressing_style": "path"} if named else None,
        # botocore's 5 attempts are soon used up if many workers start at once
        retries=None if chosen else {"mode": "standard", "total_max_attempts": _ATTEMPTS},
    )
    # botocore reads AWS_DEFAULT_REGION only; the other name is as common
    region = os.environ.get("AWS_DEFAULT_REGION") or os.environ.get("AWS_REGION")
    with _in_words("s3://"):
        session = botocore.session.get_session()
        try:
            return session.create_client("s3", region_name=region, config=config)
        except ValueError as error:
            where = "AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL or the profile's endpoint_url"
            raise StoreError(f"s3://: {error}: expected {where} as a URL") from None


def client() -> Any:
    return _client(os.getpid())


@contextmanager
def _in_words(url: str) -> Iterator[None]:
    """Turn botocore's errors into ours, with the URL and nothing else of the request."""
    try:
        yield
    except ClientError as error:
        raise _of_code(url, error.response.get("Error", {})) from None
    except NoCredentialsError:
        raise OSError(
            f"{url}: no credentials: AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, a profile, or "
            f"a role of the machine are wanted, on every machine"
        ) from None
    except BotoCoreError as error:
        raise OSError(f"{url}: {error}") from None


def _of_code(url: str, said: dict[str, Any]) -> Exception:
    code = str(said.get("Code"))
    if code in ("404", "NoSuchKey", "NotFound"):
        return FileNotFoundError(errno.ENOENT, "no such object", url)
    if code == "NoSuchBucket":
        return StoreError(f"{url}: no such bucket")
    if code in ("PreconditionFailed", "412"):
        return StoreChanged(f"{url}: changed since it was listed: its ETag is another")
    if code in ("InvalidRange", "416"):
        return StoreChanged(f"{url}: is shorter than it was")
    if code in ("403", "AccessDenied"):
        return PermissionError(errno.EACCES, "access denied (or no such bucket)", url)
    return OSError(f"{url}: {code}: {said.get('Message', 'the server says no more')}")


def _place(url: str) -> dict[str, str]:
    """Bucket and key of a URL, as botocore's arguments. Raises StoreError."""
    found = _URL.match(url)
    if not found:
        raise StoreError("an S3 URL is s3://BUCKET/KEY; keys and secrets go into the environment")
    return {"Bucket": found[1], "Key": found[2] or ""}


def _state(about: dict[str, Any]) -> FileState:
    # HEAD gives whole seconds, a listing may give more
    seconds = int(about["LastModified"].timestamp())
    size = about["Size"] if "Size" in about else about["ContentLength"]
    return FileState(int(size), seconds * 1_000_000_000, str(about["ETag"]))


class S3Storage(ManifestLast):
    """S3. Folders are prefixes of keys: they appear and vanish with their objects."""

    reads_ahead = 4  # a connection gives some 100 MB a second
    moves_by_copies = True

    def resolve(self, path: str) -> str:
        place = _place(path)
        return f"s3://{place['Bucket']}/{place['Key']}".rstrip("/")

    def list(self, folder: str) -> list[Listed]:
        """The names below a prefix. Raises FileNotFoundError if there are none."""
        prefix = self._prefix(folder)
        listed = []
        for page in self._pages("list_objects_v2", folder, Delimiter="/"):
            for below in page.get("CommonPrefixes", ()):
                listed.append(Listed(below["Prefix"][len(prefix) : -1], None))
            for about in page.get("Contents", ()):
                if about["Key"] != prefix:  # a marker that some tools write for a folder
                    listed.append(Listed(about["Key"][len(prefix) :], _state(about)))
        if not listed:
            self._explain_nothing(folder)
        return sorted(listed, key=lambda one: one.name)

    def _explain_nothing(self, folder: str) -> None:
        if _place(folder)["Key"]:
            try:
                _ = self.open(folder).state
            except FileNotFoundError:
                raise FileNotFoundError(errno.ENOENT, "no such folder", folder) from None
            raise NotADirectoryError(errno.ENOTDIR, "is an object", folder)

    def walk(self, folder: str) -> Iterator[Listed]:
        """All below a prefix, in one listing; of folders only their markers. Raises as `list`."""
        prefix, empty = self._prefix(folder), True
        for page in self._pages("list_objects_v2", folder):
            for about in page.get("Contents", ()):
                empty = False
                name = about["Key"][len(prefix) :]
                if name:
                    yield Listed(name, None if name[-1] == "/" else _state(about))
        if empty:
            self._explain_nothing(folder)

    def whereabouts(self, path: str) -> Whereabouts:
        """By bucket and key, whichever scheme (s3, s3a, s3n) the URL has."""
        place = _place(path)
        return by_key(("s3", place["Bucket"].lower()), place["Key"])

    def open(self, path: str, state: FileState | None = None) -> "S3Reader":
        """No request is made yet: a reader with a state finds a changed object as it reads."""
        return S3Reader(path, state)

    def create(self, path: str, digest: bool = False, published: bool = False) -> "S3Writer":
        """A new object, which appears when it is finished and replaces an older one of its name."""
        return S3Writer(path, digest)

    puts_once = True

    def put_new(self, path: str, content: Any) -> bool:
        """In one request, which S3 refuses where there is such an object (If-None-Match)."""
        body = bytes(content)
        try:
            with _in_words(path):
                client().put_object(**_place(path), Body=body, IfNoneMatch="*")
        except StoreChanged:  # perhaps by this very request, whose first answer was lost
            return len(body) < _PART_BYTES and self.read_bytes(path) == body
        return True

    def read_bytes(self, path: str) -> bytes:
        """The whole object; asked for again where the connection breaks, as `read_into` does."""
        for _ in range(_TRIES):
            with _in_words(path):
                answer = client().get_object(**_place(path))
            try:
                content: bytes = answer["Body"].read()
            except (HTTPClientError, IncompleteReadError):
                continue
            finally:
                answer["Body"].close()
            return content
        raise OSError(f"{path}: the connection broke {_TRIES} times")

    def has_folder(self, path: str) -> bool:
        _place(path + "/")  # above the bucket there is nothing
        return True

    def make_folders(self, path: str) -> None:
        pass

    def move_all(self, moves: Iterable[tuple[str, str]]) -> None:
        """By copies within S3; the old objects are removed with their folder."""

        def copy(move: tuple[str, str]) -> None:
            path, to = move
            with _in_words(to):
                client().copy_object(CopySource=_place(path), **_place(to))

        for_all(copy, moves)

    def remove(self, path: str) -> None:
        with _in_words(path):
            client().delete_object(**_place(path))

    def remove_all(self, paths: Iterable[str]) -> None:
        """Remove objects, many in a request. Raises OSError if one stays."""
        left = list(paths)
        for at in range(0, len(left), _DELETED_AT_ONCE):
            some = [_place(path) for path in left[at : at + _DELETED_AT_ONCE]]
            keys = {"Objects": [{"Key": place["Key"]} for place in some], "Quiet": True}
            with _in_words(left[at]):
                answer = client().delete_objects(Bucket=some[0]["Bucket"], Delete=keys)
            for said in answer.get("Errors", ()):
                raise _of_code(f"s3://{some[0]['Bucket']}/{said.get('Key')}", said)

    def remove_folder(self, path: str) -> None:
        """Remove a folder's marker; objects below it are not touched."""
        place = _place(path)
        with _in_words(path):
            client().delete_object(Bucket=place["Bucket"], Key=f"{place['Key']}/")

    def remove_tree(self, folder: str) -> None:
        """Remove all objects below a prefix, and unfinished uploads to it."""
        try:
            for page in self._pages("list_objects_v2", folder):
                keys = [{"Key": about["Key"]} for about in page.get("Contents", ())]
                for at in range(0, len(keys), _DELETED_AT_ONCE):
                    some = {"Objects": keys[at : at + _DELETED_AT_ONCE], "Quiet": True}
                    client().delete_objects(Bucket=_place(folder)["Bucket"], Delete=some)
            for page in self._pages("list_multipart_uploads", folder):
                for about in page.get("Uploads", ()):
                    client().abort_multipart_upload(
                        Bucket=_place(folder)["Bucket"],
                        Key=about["Key"],
                        UploadId=about["UploadId"],
                    )
        except Exception:  # noqa: BLE001 (as for local folders: what stays is reported by its name)
            return

    @staticmethod
    def _prefix(folder: str) -> str:
        key = _place(folder)["Key"]
        return f"{key}/" if key else ""

    def _pages(self, operation: str, folder: str, **more: str) -> Iterator[dict[str, Any]]:
        with _in_words(folder):
            yield from (
                client()
                .get_paginator(operation)
                .paginate(Bucket=_place(folder)["Bucket"], Prefix=self._prefix(folder), **more)
            )


class S3Reader:
    """Reads ranges of one version of an object, a request each."""

    def __init__(self, path: str, state: FileState | None) -> None:
        self.path = path
        self._state = state

    @property
    def state(self) -> FileState:
        """The object's state; later reads are of this version. Raises FileNotFoundError."""
        if self._state is None:
            with _in_words(self.path):
                self._state = _state(client().head_object(**_place(self.path)))
        return self._state

    def read_into(self, offset: int, buffer: Bytes) -> None:
        # A too short object first yields what it has; the next request is out of range.
        view = memoryview(buffer.data).cast("B")
        done = tries = 0
        while done < len(view):
            before = done
            done += self._read_some(offset + done, view[done:])
            tries = tries + 1 if done == before else 0
            if tries == _TRIES:
                raise OSError(f"{self.path}: the connection broke {tries} times at {offset + done}")

    def _read_some(self, offset: int, view: memoryview) -> int:
        wanted = {"Range": f"bytes={offset}-{offset + len(view) - 1}"}
        if self._state is not None:
            wanted["IfMatch"] = str(self._state.tag)
        with _in_words(self.path):
            answer = client().get_object(**_place(self.path), **wanted)
        done = 0
        body = answer["Body"]
        try:
            while done < len(view):
                count = body.readinto(view[done:])
                if not count:
                    break
                done += count
        except (HTTPClientError, IncompleteReadError):
            pass  # the rest is asked for again
        finally:
            body.close()
        return done

    def close(self) -> None:
        """No check is needed: all reads were of one version."""


class S3Writer(SequentialWriter):
    """Writes an object in one request, or a large one in parts."""

    def __init__(self, path: str, digest: bool) -> None:
        super().__init__(path, digest)
        self._place = _place(path)
        self._buffer = bytearray()
        self._upload = ""
        self._parts: list[dict[str, Any]] = []

    def _send(self, view: memoryview) -> None:
        while len(view):
            room = _PART_BYTES - len(self._buffer)
            self._buffer += view[:room]
            view = view[room:]
            if len(self._buffer) == _PART_BYTES:
                self._send_part()

    def _send_part(self) -> None:
        with _in_words(self.path):
            if not self._upload:
                begun = client().create_multipart_upload(**self._place)
                self._upload = str(begun["UploadId"])
            number = len(self._parts) + 1
            sent = client().upload_part(
                **self._place, UploadId=self._upload, PartNumber=number, Body=bytes(self._buffer)
            )
        part = {name: sent[name] for name in sent if name == "ETag" or name.startswith("Checksum")}
        part.pop("ChecksumType", None)
        self._parts.append({"PartNumber": number, **part})
        self._buffer.clear()

    def _close(self) -> None:
        if self._upload and self._buffer:
            self._send_part()
        with _in_words(self.path):
            if self._upload:
                client().complete_multipart_upload(
                    **self._place, UploadId=self._upload, MultipartUpload={"Parts": self._parts}
                )
            else:
                client().put_object(**self._place, Body=bytes(self._buffer))
        self._buffer.clear()

    def abandon(self) -> None:
        if self._upload:
            with _in_words(self.path):
                client().abort_multipart_upload(**self._place, UploadId=self._upload)
