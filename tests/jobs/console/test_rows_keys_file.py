"""The file of --keys-file: a key a line, whatever ends the line."""

import io
from pathlib import Path
from types import SimpleNamespace

import pytest

from reput.jobs.console.rows import read_keys
from reput.store_format.faults import StoreError


@pytest.mark.parametrize(
    ("raw", "keys"),
    [
        (b"", []),
        (b"\n\r\n\n", []),
        (b"a\nb", ["a", "b"]),
        (b"a\r\nb\r\n", ["a", "b"]),
        (b" a b \n", [" a b "]),
        (b"a\x0bb\xe2\x80\xa8c\rd\n", ["a\x0bb\u2028c\rd"]),
        (b"a\na\n", ["a", "a"]),
    ],
)
def test_a_key_is_a_line_and_nothing_else_ends_it(raw: bytes, keys: list[str], tmp_path) -> None:
    (tmp_path / "keys").write_bytes(raw)
    assert read_keys(str(tmp_path / "keys")) == keys


def test_keys_come_from_standard_input_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO(b"a\nb\n")))
    assert read_keys("-") == ["a", "b"]


def test_a_line_that_is_no_utf_8_is_named_and_so_is_a_missing_file(tmp_path: Path) -> None:
    (tmp_path / "keys").write_bytes(b"a\n\n\xff\n")
    with pytest.raises(StoreError, match="line 3 is not UTF-8"):
        read_keys(str(tmp_path / "keys"))
    for path in (tmp_path / "none", tmp_path):
        with pytest.raises(StoreError, match=f"--keys-file {path}: "):
            read_keys(str(path))
