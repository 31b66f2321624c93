"""Who may ask: keys as their file has them, and the words of PlainPermissionManager's refusals."""

import base64
import hashlib
import hmac
from pathlib import Path
from typing import Any, cast

import pytest

from reput.broker.serving.broker import Broker, Caller
from reput.broker.wire.codes import ResponseCode
from reput.jobs.sockets.access import guard_by, read_access_keys
from reput.store_format.faults import StoreError
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


@pytest.mark.parametrize(
    ("lines", "keys"),
    [
        ("accessKey: a\nsecretKey: b", {"a": "b"}),
        ("accessKey: 'a'\r\nsecretKey: \"b#c\"\r\n", {"a": "b#c"}),
        ("accounts:\n  - accessKey: a # who\n    secretKey: b\n    admin: false", {"a": "b"}),
        ("accessKey: a#b # who\nsecretKey: c#d", {"a#b": "c#d"}),
        ("# accessKey: no\naccessKey: a\ntopicPerms:\n- T=DENY\nsecretKey: b", {"a": "b"}),
        ("accessKey: a\nsecretKey: b\naccessKey: c\nsecretKey: b", {"a": "b", "c": "b"}),
        ("accessKey: \u00e9\nsecretKey: 1", {"\u00e9": "1"}),
    ],
)
def test_pairs_of_lines_are_read_and_all_else_is_not(
    tmp_path: Path, lines: str, keys: dict[str, str]
) -> None:
    assert read(tmp_path, lines.encode()) == keys


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"accessKey: a\n\xff", "is not text in UTF-8"),
        (b"#" * ((1 << 20) + 1), "more than 1048576 bytes"),
        (b"secretKey: hidden\n", "line 1: .* do not alternate"),
        (b"accessKey: a\nsecretKey: hidden\nsecretKey: hidden\n", "line 3: .* do not alternate"),
        (b"accessKey: a\nsecretKey: has hidden blanks\n", "with its secretKey"),
        (b"", "with its secretKey"),
    ],
)
def test_what_is_no_list_of_keys_is_told_without_them(tmp_path, content: bytes, said: str) -> None:
    with pytest.raises(StoreError, match=said) as error:
        read(tmp_path, content)
    assert "hidden" not in str(error.value)


def test_a_request_that_was_signed_with_its_keys_secret_is_let_through() -> None:
    assert why(b"body", **signed("12345678", b"body", AccessKey="reader", topic="T")) is None


def test_one_that_was_not_is_told_what_is_wrong() -> None:
    assert why() == "No accessKey is configured"
    assert why(AccessKey="n" * 99) == f"No acl config for {'n' * 64}"
    failed = "Check signature failed for accessKey=reader"
    assert why(AccessKey="reader") == failed
    assert why(b"other", **signed("12345678", b"body", AccessKey="reader")) == failed
    assert why(**signed("87654321", b"", AccessKey="reader")) == failed


def test_an_unknown_key_is_not_let_through_by_any_secret() -> None:
    for secret in ("no account", "", "12345678"):
        fields = signed(secret, b"", AccessKey="other")
        assert why(**fields) == "No acl config for other"
