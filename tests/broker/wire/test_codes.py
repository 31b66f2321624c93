"""Bodies as fastjson writes them: integer keys without quotes, objects as keys."""

from typing import Any

import pytest

from reput.broker.wire.codes import Entries, fastjson, ordinal, reads_standard_json


@pytest.mark.parametrize(("value", "plain", "standard"), [
    ({0: "a", -1: 2}, '{0:"a",-1:2}', '{"0":"a","-1":2}'), ({"0": 1}, '{"0":1}', '{"0":1}'),
    ({"k": {1: {2: []}}}, '{"k":{1:{2:[]}}}', '{"k":{"1":{"2":[]}}}'),
    ("\u00e9\u4e2d", '"\u00e9\u4e2d"', '"\\u00e9\\u4e2d"'),
    ({"\u00e9": 1}, '{"\u00e9":1}', '{"\\u00e9":1}'), ('"\\\n', '"\\"\\\\\\n"', '"\\"\\\\\\n"'),
    ([1, (2, "x"), None, True, 1.5], '[1,[2,"x"],null,true,1.5]', '[1,[2,"x"],null,true,1.5]'),
    (frozenset({7}), "[7]", "[7]"), ({}, "{}", "{}")])  # fmt: skip
def test_a_value_with_and_without_standard_json(value: Any, plain: str, standard: str) -> None:
    assert fastjson(value) == plain.encode()
    assert fastjson(value, standard=True) == standard.encode()


def test_fastjsons_objects_are_keys_and_a_lone_surrogate_ends_nothing() -> None:
    table = {"offsetTable": Entries([({"queueId": 1}, 5), ({"queueId": 2}, {3: 4})])}
    assert fastjson(table) == b'{"offsetTable":{{"queueId":1}:5,{"queueId":2}:{3:4}}}'
    assert fastjson(Entries([(1, 2)]), standard=True) == b"{1:2}"
    assert fastjson("a\ud800b") == b'"a?b"'


# --- Releases as numbers: the ordinals of MQVersion.Version, counted in RocketMQ 5.3.3's source.
@pytest.mark.parametrize(("release", "number"), [
    ("4.0.0", 213), ("4.1.0-incubating", 233), ("4.9.3", 399), ("4.9.4", 401), ("4.9.8", 409),
    ("5.0.0", 413), ("5.1.4", 441), ("5.3.3", 479), ("5.4.0", 493)])  # fmt: skip
def test_a_release_has_its_ordinal(release: str, number: int) -> None:
    assert ordinal(release) == number


def test_standard_json_is_read_from_4_9_4_on() -> None:
    assert not reads_standard_json(400)  # V4_9_4_SNAPSHOT
    assert reads_standard_json(401)
    assert not reads_standard_json(0)
