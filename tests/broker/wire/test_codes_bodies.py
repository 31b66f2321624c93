"""Bodies as fastjson writes them: integer keys without quotes, objects as keys."""

from typing import Any

import pytest

from reput.broker.wire.codes import Entries, fastjson


@pytest.mark.parametrize(
    ("value", "plain", "standard"),
    [
        ({0: "a", -1: 2}, '{0:"a",-1:2}', '{"0":"a","-1":2}'),
        ({"0": 1}, '{"0":1}', '{"0":1}'),
        ({"k": {1: {2: []}}}, '{"k":{1:{2:[]}}}', '{"k":{"1":{"2":[]}}}'),
        ("\u00e9\u4e2d", '"\u00e9\u4e2d"', '"\\u00e9\\u4e2d"'),
        ({"\u00e9": 1}, '{"\u00e9":1}', '{"\\u00e9":1}'),
        ('"\\\n', '"\\"\\\\\\n"', '"\\"\\\\\\n"'),
        ([1, (2, "x"), None, True, 1.5], '[1,[2,"x"],null,true,1.5]', '[1,[2,"x"],null,true,1.5]'),
        (frozenset({7}), "[7]", "[7]"),
        ({}, "{}", "{}"),
    ],
)
def test_a_value_with_and_without_standard_json(value: Any, plain: str, standard: str) -> None:
    assert fastjson(value) == plain.encode()
    assert fastjson(value, standard=True) == standard.encode()


def test_objects_are_keys() -> None:
    table = {"offsetTable": Entries([({"queueId": 1}, 5), ({"queueId": 2}, {3: 4})])}
    assert fastjson(table) == b'{"offsetTable":{{"queueId":1}:5,{"queueId":2}:{3:4}}}'
    assert fastjson(Entries([(1, 2)]), standard=True) == b"{1:2}"


def test_a_lone_surrogate_does_not_end_the_answer() -> None:
    assert fastjson("a\ud800b") == b'"a?b"'
