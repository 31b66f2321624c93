"""Integer keys without quotes, as fastjson writes them, become texts, and nothing else changes."""

import json

import pytest

from reput.store_format.java import quoted_keys


@pytest.mark.parametrize(
    ("raw", "quoted"),
    [
        (b"{}", b"{}"),
        (b"{1:2}", b'{"1":2}'),
        (b"{1:{2:3,4:5}}", b'{"1":{"2":3,"4":5}}'),
        (b"{-1:2,\n\t0 : 3}", b'{"-1":2,\n\t"0" : 3}'),
        (b'{"1":2}', b'{"1":2}'),
        (b'{"a":"{1:2}",3:4}', b'{"a":"{1:2}","3":4}'),  # what is in a text stays
        (b'{"a\\"{1:":2,3:4}', b'{"a\\"{1:":2,"3":4}'),
        (b'{"a\\\\":1,3:4}', b'{"a\\\\":1,"3":4}'),
        (b"[1,2,{3:4}]", b'[1,2,{"3":4}]'),
        (b'{"a":-5,6:7}', b'{"a":-5,"6":7}'),
        (b"{1.5:2}", b"{1.5:2}"),
        ('{"\u00e9":1,2:3}'.encode(), '{"\u00e9":1,"2":3}'.encode()),
        (b"", b""),
        (b'{"never ended', b'{"never ended'),
    ],
)
def test_integer_keys_get_quotes(raw: bytes, quoted: bytes) -> None:
    assert quoted_keys(raw) == quoted


def test_a_mark_shows_which_keys_had_none() -> None:
    assert quoted_keys(b'{"1":2,1:3}', b"#") == b'{"1":2,"#1":3}'


def test_delay_offsets_of_a_broker_are_json_then() -> None:
    raw = b'{"dataVersion":{"counter":1},"offsetTable":{12:2,6:3,\n13:1}}'
    assert json.loads(quoted_keys(raw))["offsetTable"] == {"12": 2, "6": 3, "13": 1}
