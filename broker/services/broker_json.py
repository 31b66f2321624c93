"""Files of config/ as a broker writes them: JSON with unquoted integer keys, and a .bak.

MixAll.string2File keeps the old content as .bak. Here either file appears whole or not at all.
"""

import json
import re
from typing import Any

from reput.store_format.faults import StoreError
from reput.store_format.files.protocol import Files, check_small, read_small, replace_small
from reput.store_format.java import quoted_keys
from reput.store_format.release.profiles import Profile

_BYTES_MAX = 256 << 20
_MARK = "#"  # put before a key that had no quotes; no topic or group name begins with it
_NEW, _BACKUP = ".tmp", ".bak"  # as in MixAll.string2File
_MARKED = re.compile(rf"{_MARK}-?[0-9]+")


def read_json(files: Files, path: str) -> dict[str, Any]:
    """A file's JSON object; {} where there is no file. Keys that had no quotes begin with `#`.

    Raises StoreError for anything but a JSON object, so that it is not overwritten.
    """
    raw = _read(files, path)
    if raw is None:
        return {}
    try:
        found = json.loads(quoted_keys(raw, _MARK.encode()))
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise StoreError(f"{path}: offset 0: is no JSON object; it is left as it is")
    return found


def read_offsets(files: Files, path: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """A file's JSON object, and the `offsetTable` in it, which the caller may change.

    Raises StoreError where either is no JSON object, or where the folder or a file that
    `write_json` is to write is a link or the like.
    """
    folder = path.rpartition("/")[0]
    if files.exists(folder) and not files.is_folder(folder):  # it raises for a link
        raise StoreError(f"{folder}: is no folder")
    for name in (path + _BACKUP, path + _BACKUP + _NEW, path + _NEW):
        check_small(files, name)
    whole = read_json(files, path)
    table = whole.setdefault("offsetTable", {})
    if not isinstance(table, dict):
        raise StoreError(f"{path}: offsetTable: is no JSON object; it is left as it is")
    return whole, table


def integer_key(number: int | str) -> str:
    """A key without quotes, as `read_json` returns it."""
    return f"{_MARK}{number}"


def write_json(files: Files, path: str, value: dict[str, Any], profile: Profile) -> None:
    """Replace a file durably, and keep its old content as .bak. Raises OSError."""
    before = _read(files, path)
    text = pretty(value, profile.config_entry_lines).encode()
    if before == text:
        return
    folder = path.rpartition("/")[0]
    files.make_folder(folder)
    for name, content in ((path + _BACKUP, before), (path, text)):
        if content is not None:
            replace_small(files, name, content, beside=_NEW)
    files.sync_folder(folder)


def pretty(value: Any, entry_lines: bool, depth: int = 0) -> str:
    """RemotingSerializable.toJson(value, true).

    entry_lines: each entry and element has a line of its own (fastjson2, from 5.4.0 on). Before,
    maps with unquoted keys only, and lists, are on one line (fastjson).
    """
    if isinstance(value, dict):
        parts = [
            f"{key[len(_MARK) :] if _MARKED.fullmatch(key) else _json(key)}:"
            f"{pretty(each, entry_lines, depth + 1)}"
            for key, each in value.items()
        ]
        inline = not entry_lines and bool(value) and all(map(_MARKED.fullmatch, value))
        return _block("{", parts, "}", inline, depth)
    if isinstance(value, list):
        parts = [pretty(each, entry_lines, depth + 1) for each in value]
        return f"[{','.join(parts)}]" if not entry_lines else _block("[", parts, "]", False, depth)
    return _json(value)


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _block(opens: str, parts: list[str], closes: str, inline: bool, depth: int) -> str:
    if not parts:
        return opens + closes
    line = "\n" + "\t" * (depth + 1)
    begin, between = ("", ",") if inline else (line, f",{line}")
    end = "\n" + "\t" * depth
    return f"{opens}{begin}{between.join(parts)}{end}{closes}"


def _read(files: Files, path: str) -> bytes | None:
    """A file's bytes; None where there is none. Raises StoreError, OSError."""
    try:
        raw = read_small(files, path, _BYTES_MAX + 1)
    except FileNotFoundError:
        return None
    if len(raw) > _BYTES_MAX:
        raise StoreError(f"{path}: more than {_BYTES_MAX} bytes are too many")
    return raw
