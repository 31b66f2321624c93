"""Headers as JSON: what is read of other clients' headers, and what fastjson would write."""

import json
from typing import Any

import pytest

from reput.broker.wire.codes import Language
from reput.broker.wire.remoting import BadFrame, Command, Serialization, decode_json, encode_json


def test_a_header_of_java_is_read_whole() -> None:
    header = (
        b'{"code":11,"extFields":{"topic":"T","queueId":"3"},"flag":2,"language":"JAVA",'
        b'"opaque":-7,"remark":"r","serializeTypeCurrentRPC":"JSON","version":479}'
    )
    command = decode_json(header)
    assert command == Command(
        11, -7, 2, {"topic": "T", "queueId": "3"}, b"", "r", 479, Language.JAVA, Serialization.JSON
    )
    assert encode_json(command) == header


def test_what_is_missing_has_fastjsons_default() -> None:
    command = decode_json(b'{"code":0}')
    assert (command.opaque, command.flag, command.version, command.fields) == (0, 0, 0, {})
    assert (command.remark, command.language) == (None, Language.OTHER)
    assert decode_json(b'{"code":0,"extFields":null,"remark":null}') == command


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("x", "x"),
        ("", ""),
        (5, "5"),
        (-(1 << 63), "-9223372036854775808"),
        (True, "true"),
        (False, "false"),
        (1.5, "1.5"),
        (None, None),  # as if it were not there
    ],
)
def test_a_field_is_a_text_whatever_a_client_wrote(value: Any, text: str | None) -> None:
    header = json.dumps({"code": 1, "extFields": {"f": value, "g": "h"}}).encode()
    wanted = {"g": "h"} if text is None else {"f": text, "g": "h"}
    assert decode_json(header).fields == wanted


@pytest.mark.parametrize("language", [b'"PYTHON9"', b"7", b"null", b"[]"])
def test_an_unknown_language_is_another(language: bytes) -> None:
    assert decode_json(b'{"code":1,"language":%b}' % language).language == Language.OTHER


@pytest.mark.parametrize(
    ("header", "reason"),
    [
        (b"", "not JSON"),
        (b"\xff", "not JSON"),
        (b"[" * 100_000, "not JSON"),
        (b"[]", "not a JSON object"),
        (b"{}", "no code"),
        (b'{"code":"11"}', "code is not an int"),
        (b'{"code":1.0}', "code is not an int"),
        (b'{"code":true}', "code is not an int"),
        (b'{"code":2147483648}', "code is not an int"),
        (b'{"code":1,"opaque":-2147483649}', "opaque is not an int"),
        (b'{"code":1,"flag":null}', "flag is not an int"),
        (b'{"code":1,"version":[]}', "version is not an int"),
        (b'{"code":1,"remark":5}', "remark is not text"),
        (b'{"code":1,"extFields":[]}', "extFields are no JSON object"),
        (b'{"code":1,"extFields":{"a":[]}}', "extFields is not text"),
    ],
)
def test_a_header_that_is_none_says_why(header: bytes, reason: str) -> None:
    with pytest.raises(BadFrame, match=reason):
        decode_json(header)


def test_what_is_written_is_plain_json_in_fastjsons_order() -> None:
    command = Command(1, fields={'a"\n': "\u00e9\\"}, remark="", language=99)
    text = encode_json(command).decode()
    assert list(json.loads(text)) == [
        "code", "extFields", "flag", "language", "opaque", "remark", "serializeTypeCurrentRPC",
        "version",
    ]  # fmt: skip
    assert json.loads(text)["extFields"] == {'a"\n': "\u00e9\\"}
    assert json.loads(text)["language"] == "OTHER"
    assert " " not in text
    assert b"extFields" not in encode_json(Command(1))
    assert b"remark" not in encode_json(Command(1))
