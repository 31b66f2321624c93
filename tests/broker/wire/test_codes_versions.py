"""Releases as numbers: the ordinals of MQVersion.Version, counted in RocketMQ 5.3.3's source."""

import pytest

from reput.broker.wire.codes import ordinal, reads_standard_json


@pytest.mark.parametrize(
    ("release", "number"),
    [
        ("4.0.0", 213),
        ("4.1.0-incubating", 233),
        ("4.9.3", 399),
        ("4.9.4", 401),
        ("4.9.8", 409),
        ("5.0.0", 413),
        ("5.1.4", 441),
        ("5.3.3", 479),
        ("5.4.0", 493),
    ],
)
def test_a_release_has_its_ordinal(release: str, number: int) -> None:
    assert ordinal(release) == number


def test_standard_json_is_read_from_4_9_4_on() -> None:
    assert not reads_standard_json(400)  # V4_9_4_SNAPSHOT
    assert reads_standard_json(401)
    assert not reads_standard_json(0)
