"""Signatures of requests as RocketMQ's clients make them (AclUtils.calSignature)."""

import base64
import hashlib
import hmac

import pytest

from reput.broker.wire.remoting import signature, signed_by


def hmac_sha1(content: bytes, key: bytes = b"secret") -> str:
    return base64.b64encode(hmac.digest(key, content, hashlib.sha1)).decode()


def test_values_are_signed_in_the_order_of_their_names_then_the_body() -> None:
    fields = {"topic": "T", "AccessKey": "me", "queueId": "0", "Signature": "left out"}
    assert signature(fields, b"body", "secret") == hmac_sha1(b"me0Tbody")
    assert signature({}, b"", "secret") == hmac_sha1(b"")


def test_names_are_in_the_order_of_utf_16_units() -> None:
    fields = {"\U00010000": "above", "\uffff": "below", "Z": "1", "a": "2"}
    assert signature(fields, b"", "secret") == hmac_sha1(b"12abovebelow")


@pytest.mark.parametrize(
    ("fields", "body", "key", "fine"),
    [
        ({"a": "1"}, b"body", "secret", True),
        ({"a": "1"}, b"body", "Secret", False),
        ({"a": "2"}, b"body", "secret", False),
        ({"a": "1", "b": ""}, b"body", "secret", True),  # only values are signed
        ({"a": "1"}, b"bodies", "secret", False),
        ({"b": "1"}, b"body", "secret", True),
        ({"a": "1b", "b": "ody"}, b"", "secret", True),
    ],
)
def test_who_has_the_key_has_signed_the_values(
    fields: dict[str, str], body: bytes, key: str, fine: bool
) -> None:
    given = {**fields, "Signature": hmac_sha1(b"1body")}
    assert signed_by(given, body, key) == fine


def test_the_mark_of_a_query_by_unique_key_may_be_signed_or_not() -> None:
    fields = {"_UNIQUE_KEY_QUERY": "true", "key": "k"}
    for content, fine in ((b"k", True), (b"truek", True), (b"true", False)):
        assert signed_by({**fields, "Signature": hmac_sha1(content)}, b"", "secret") == fine


@pytest.mark.parametrize("given", [{}, {"Signature": ""}, {"Signature": "\u00e9"}])
def test_no_signature_is_never_right(given: dict[str, str]) -> None:
    assert not signed_by({"a": "1", **given}, b"", "secret")
