"""Who may ask: keys as their file has them, and the words of PlainPermissionManager's refusals."""

from __future__ import annotations

import argparse
import base64
import hashlib
import hmac
import socket
import struct
from pathlib import Path
from typing import Any, cast

import pytest

from reput.broker.serving.broker import Broker, Caller
from reput.broker.wire.codes import ResponseCode
from reput.jobs.sockets.access import (
    OffsetsFile,
    add_slave_arguments,
    guard_by,
    read_access_keys,
    serve_slaves,
)
from reput.store_format.discover.config import Offsets
from reput.store_format.faults import StoreError
from reput.store_format.notes import Notes
from reput.store_format.release.settings import SettingError
from tests.broker.serving.served import message, served
from tests.broker.writer.stores import TINY
from tests.jobs.sockets.asked import Asked
from tests.jobs.sockets.asking import request

KEYS = {"reader": "12345678"}


def read(folder: Path, content: bytes) -> dict[str, str]:
    path = folder / "keys.yml"
    path.write_bytes(content)
    path.chmod(0o600)
    return read_access_keys(str(path))


def why(body: bytes = b"", /, **fields: Any) -> str | None:
    """Why a request is refused; None: it is not. No guard looks at the broker or the caller."""
    nobody = Caller(1, "10.0.0.1:5000", "127.0.0.1:9876", 0)
    said = guard_by(KEYS)(cast(Broker, None), request(11, body=body, **fields), nobody)
    assert said is None or said.code == ResponseCode.NO_PERMISSION
    return said and said.remark


def signed(secret: str, body: bytes, **fields: str) -> dict[str, Any]:
    """AclUtils.calSignature: HMAC-SHA1 over the values by their names, and the body."""
    content = "".join(fields[name] for name in sorted(fields)).encode() + body
    digest = hmac.new(secret.encode(), content, hashlib.sha1).digest()
    return {**fields, "Signature": base64.b64encode(digest).decode()}


@pytest.mark.parametrize(("lines", "keys"), [
    ("accessKey: a\nsecretKey: b", {"a": "b"}),
    ("accessKey: 'a'\r\nsecretKey: \"b#c\"\r\n", {"a": "b#c"}),
    ("accounts:\n  - accessKey: a # who\n    secretKey: b\n    admin: false", {"a": "b"}),
    ("accessKey: a#b # who\nsecretKey: c#d", {"a#b": "c#d"}),
    ("# accessKey: no\naccessKey: a\ntopicPerms:\n- T=DENY\nsecretKey: b", {"a": "b"}),
    ("accessKey: a\nsecretKey: b\naccessKey: c\nsecretKey: b", {"a": "b", "c": "b"}),
    ("accessKey: \u00e9\nsecretKey: 1", {"\u00e9": "1"})])  # fmt: skip
def test_pairs_of_lines_are_read_and_all_else_is_not(tmp_path, lines, keys) -> None:
    assert read(tmp_path, lines.encode()) == keys


@pytest.mark.parametrize(("content", "said"), [
    (b"accessKey: a\n\xff", "is not text in UTF-8"),
    (b"#" * ((1 << 20) + 1), "more than 1048576 bytes"),
    (b"secretKey: hidden\n", "line 1: .* do not alternate"),
    (b"accessKey: a\nsecretKey: hidden\nsecretKey: hidden\n", "line 3: .* do not alternate"),
    (b"accessKey: a\nsecretKey: has hidden blanks\n", "with its secretKey"),
    (b"", "with its secretKey")])  # fmt: skip
def test_what_is_no_list_of_keys_is_told_without_them(tmp_path, content: bytes, said: str) -> None:
    with pytest.raises(StoreError, match=said) as error:
        read(tmp_path, content)
    assert "hidden" not in str(error.value)


def test_a_request_is_let_through_by_its_key_s_signature_alone() -> None:
    assert why(b"body", **signed("12345678", b"body", AccessKey="reader", topic="T")) is None
    assert why() == "No accessKey is configured"
    assert why(AccessKey="n" * 99) == f"No acl config for {'n' * 64}"
    failed = "Check signature failed for accessKey=reader"
    assert why(AccessKey="reader") == failed
    assert why(b"other", **signed("12345678", b"body", AccessKey="reader")) == failed
    assert why(**signed("87654321", b"", AccessKey="reader")) == failed
    for secret in ("no account", "", "12345678"):
        fields = signed(secret, b"", AccessKey="other")
        assert why(**fields) == "No acl config for other"


# --- Committed offsets beside a store: what the file says goes before what the store says.
STORE: Offsets = {("g", "T"): {0: 7, 1: 8}, ("g", "U"): {0: 1}}


def over(path: Path, content: str, notes: Notes | None = None) -> Offsets:
    path.write_text(content)
    return OffsetsFile(str(path), ()).over(STORE, notes or Notes())


def test_without_offsets_of_the_file_a_group_is_where_the_store_has_it(tmp_path: Path) -> None:
    file = OffsetsFile(str(tmp_path / "no.json"), ())
    assert file.over(STORE, Notes()) == STORE
    assert not (tmp_path / "no.json").exists()
    notes = Notes()
    assert over(tmp_path / "o", '{"offsetTable":{"T@g":[],"nogroup":{"0":1}}}', notes) == STORE
    assert len(notes.lines) == 1


@pytest.mark.parametrize(
    "rest", ["", "{}", "null}", "[1]}", "7}", '{"T@g":{"0":1}', "{" + '"a":{' * 100_000]
)
def test_a_file_that_was_cut_or_changed_is_refused_and_stays(tmp_path: Path, rest: str) -> None:
    content = '{"offsetTable":' + rest
    with pytest.raises(StoreError, match=r"o: has no offsetTable; it is left as it is"):
        over(tmp_path / "o", content)
    assert (tmp_path / "o").read_text() == content


# --- `reput serve --ha-listen`: the log goes to slaves, all of it, while clients are served.
HERE = ("127.0.0.1", 0)
SETTINGS = {name: str(value) for name, value in TINY.items()}


def words(store: Path, at: int | None = None, follow: bool = False) -> argparse.Namespace:
    return argparse.Namespace(store=f"{store}/", rocketmq="5.3.3", at=at, follow=follow)


@pytest.fixture
def asked(tmp_path: Path) -> Asked:
    return served(tmp_path / "store", [message(0)])


def test_its_option_is_an_address_and_nobody_is_served_without_it() -> None:
    parser = argparse.ArgumentParser()
    add_slave_arguments(parser)
    assert parser.parse_args([]).ha_listen is None
    assert parser.parse_args(["--ha-listen", "0.0.0.0:10912"]).ha_listen == "0.0.0.0:10912"


def test_slaves_get_the_log_from_where_they_are(tmp_path: Path, asked: Asked) -> None:
    said: list[str] = []
    stop = serve_slaves(words(tmp_path / "store"), HERE, SETTINGS, asked.broker, said.append)
    address = asked.broker.slaves_at
    assert address is not None
    assert said[0] == f"slaves get the log at 127.0.0.1:{address[1]}"
    raw = (tmp_path / f"store/commitlog/{0:020d}").read_bytes()
    size = struct.unpack_from(">i", raw)[0]
    with socket.create_connection(address, 5.0) as peer:
        peer.sendall(struct.pack(">q", 0))
        file = peer.makefile("rb")
        assert struct.unpack(">qi", file.read(12)) == (0, size)
        assert file.read(size) == raw[:size]
        stop()
    with pytest.raises(OSError, match=r"refused|reset"):
        socket.create_connection(address, 5.0)


def test_a_store_as_it_once_was_or_without_a_log_has_no_slaves(tmp_path, asked) -> None:
    with pytest.raises(SettingError, match="sends all of the log: not with --at"):
        serve_slaves(words(tmp_path / "store", at=0), HERE, SETTINGS, asked.broker, print)
    assert asked.broker.slaves_at is None
    with pytest.raises(StoreError):
        serve_slaves(words(tmp_path / "none"), HERE, SETTINGS, asked.broker, print)
    assert asked.broker.slaves_at is None
