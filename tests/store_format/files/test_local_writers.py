"""Files written on a local disk: their bytes, digest and holes; how the kernel is asked to."""

import errno
import hashlib
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from reput.store_format.files import local_writers
from reput.store_format.files.local import LocalStorage
from tests.store_format.files import battery

PAGE = 4096
PIECES = st.lists(st.one_of(st.binary(max_size=40), st.integers(1, 300_000).map(bytes),
    st.integers(1, 300_000).map(lambda n: b"ab\0" * (n // 3))), max_size=12)  # fmt: skip


def write_pieces(path: Path, pieces: list[bytes], length: int, digest: bool = True) -> str:
    output = LocalStorage().create(str(path), digest)
    for piece in pieces:
        output.write(piece)
    written = output.finish(length)
    assert (written.length, written.used) == (length, sum(map(len, pieces)))
    return written.sha256


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(PIECES, st.integers(0, 200_000), st.booleans(), st.sampled_from([PAGE, 1 << 16, 1 << 20]))
def test_what_is_written_is_there(tmp_path, pieces, more: int, digest, piece_bytes: int) -> None:
    content = b"".join(pieces)
    wanted = content + bytes(more)
    path = tmp_path / "file"
    path.unlink(missing_ok=True)
    before, local_writers._PIECE_BYTES = local_writers._PIECE_BYTES, piece_bytes
    try:
        said = write_pieces(path, pieces, len(wanted), digest)
    finally:
        local_writers._PIECE_BYTES = before
    assert path.read_bytes() == wanted
    assert said == (hashlib.sha256(content).hexdigest() if digest else "")


def calls_of(monkeypatch: pytest.MonkeyPatch, refuses: bool) -> list[tuple[int, int, int]]:
    """(offset, bytes, flags) of each write; a disk that `refuses` knows no flags."""
    calls = []
    real = os.pwritev

    def noted(descriptor: int, buffers: list[Any], at: int, flags: int = 0) -> int:
        calls.append((at, len(buffers[0]), flags))
        if flags and refuses:
            raise OSError(errno.EOPNOTSUPP, os.strerror(errno.EOPNOTSUPP))
        return real(descriptor, buffers, at)

    monkeypatch.setattr(os, "pwritev", noted)
    monkeypatch.setattr(local_writers, "uncached_flags", lambda _: 0x80)
    return calls


def test_published_pages_are_written_whole_and_not_cached(tmp_path, monkeypatch) -> None:
    calls = calls_of(monkeypatch, refuses=False)
    content = os.urandom(3 << 20) + b"end"
    write_pieces(tmp_path / "file", [content[:41], content[41:99_999], content[99_999:]],
                 len(content))  # fmt: skip
    assert (tmp_path / "file").read_bytes() == content
    *whole, last = calls
    assert all(at % PAGE == size % PAGE == 0 and flags == 0x80 for at, size, flags in whole)
    assert last == (3 << 20, 3, 0)


@pytest.mark.parametrize(("pieces", "length", "digest", "wanted"), [
    ([b"ab", b"cd"], 4096, True, [(0, 4, 0)]),  # left to the sync of its set
    ([b"a" * 5000, b"b" * 5000], 10_000, False, [(0, 5000, 0), (5000, 5000, 0)]),
    ([bytes(range(256)) * 8192 + b"rest"], (2 << 20) + 4, False,
        [(0, 1 << 20, 0), (1 << 20, 1 << 20, 0), (2 << 20, 4, 0)])])  # fmt: skip
def test_staged_and_small_files_stay_in_the_cache_and_a_long_write_is_done_in_pieces(
    tmp_path, monkeypatch, pieces, length, digest, wanted
) -> None:
    calls = calls_of(monkeypatch, refuses=False)
    write_pieces(tmp_path / "file", pieces, length, digest)
    assert (tmp_path / "file").read_bytes() == b"".join(pieces).ljust(length, b"\0")
    assert calls == wanted


def test_a_file_system_that_does_not_know_how_is_written_to_as_ever(tmp_path, monkeypatch) -> None:
    calls = calls_of(monkeypatch, refuses=True)
    content = os.urandom(2 << 20)
    digest = write_pieces(tmp_path / "file", [content], len(content))
    assert (tmp_path / "file").read_bytes() == content
    assert digest == hashlib.sha256(content).hexdigest()
    assert [flags for _, _, flags in calls] == [0x80, 0, 0]  # it is asked once


def test_another_error_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "pwritev", full)
    with pytest.raises(OSError, match="No space"):
        write_pieces(tmp_path / "file", [b"abc"], 3)


def test_a_shared_file_is_synced_when_it_has_its_length(tmp_path, monkeypatch) -> None:
    lengths = []
    monkeypatch.setattr(
        os, "fsync", lambda descriptor: lengths.append(os.fstat(descriptor).st_size)
    )
    output = LocalStorage(sync_files=True).create(str(tmp_path / "file"), digest=True)
    output.write(b"abc")
    output.finish(PAGE)
    assert lengths == [PAGE]


def test_a_placed_file_is_there_once_and_a_late_task_places_nothing(tmp_path: Path) -> None:
    gone = tmp_path / "staging"
    with pytest.raises(FileNotFoundError):
        LocalStorage().place(str(gone), "placed/a/file", b"abc", 3)
    assert not gone.exists()
    assert not LocalStorage(sync_files=True).place(str(tmp_path), "placed/a/file", b"abc", 3)
    assert not (tmp_path / "placed").exists()
    storage = LocalStorage()
    assert storage.place(str(tmp_path), "placed/a/b/file", b"abc", 10)
    assert not storage.place(str(tmp_path), "placed/a/b/file", b"xyz", 10)
    path = tmp_path / "placed" / "a" / "b" / "file"
    assert path.read_bytes() == b"abc" + bytes(7)
    assert path.stat().st_mode & 0o777 == 0o600
    assert {folder.stat().st_mode & 0o777 for folder in path.parents[:3]} == {0o700}
    assert storage.place(str(tmp_path), "placed/a/c/file", b"", 0)


def test_one_of_several_puts_a_new_file(tmp_path: Path) -> None:
    battery.check_put_new(LocalStorage(), str(tmp_path))


def test_a_new_file_is_put_where_no_file_has_two_names(tmp_path: Path, monkeypatch) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise OSError(errno.EPERM, "no second names")

    monkeypatch.setattr(os, "link", refuse)
    told = [LocalStorage().put_new(f"{tmp_path}/x", content) for content in (b"first", b"second")]
    assert (told, (tmp_path / "x").read_bytes()) == ([True, False], b"first")
    assert os.listdir(tmp_path) == ["x"]
