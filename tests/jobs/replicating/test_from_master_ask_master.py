"""What a live master says of itself, of which only what can be is believed."""

import json
from collections.abc import Mapping
from typing import Any

import pytest

from reput.broker.wire.replication import ProtocolError
from reput.jobs.replicating.from_master import Asking, MasterSays

RUNTIME_INFO, CONFIG = 28, 26  # GET_BROKER_RUNTIME_INFO, GET_BROKER_CONFIG
MIN, MAX, VERSION = "commitLogMinOffset", "commitLogMaxOffset", "brokerVersionDesc"


class Answered(Asking):
    """Answers by code, without a connection."""

    def __init__(self, bodies: Mapping[int, bytes]) -> None:
        super().__init__(("127.0.0.1", 10911))
        self.bodies = bodies

    def ask(self, code: int) -> bytes:
        return self.bodies[code]


def says(table: Mapping[str, Any], config: bytes = b"") -> MasterSays:
    info = json.dumps({"table": table}).encode()
    return Answered({RUNTIME_INFO: info, CONFIG: config}).says()


def test_only_what_can_be_is_read() -> None:
    """The log's ends, the release, and the settings by which a log is cut and derived."""
    found = says({MIN: "1073741824", MAX: "5000000000", VERSION: "V5_3_3"})
    assert found == MasterSays(1073741824, 5000000000, "5.3.3", {})
    for written in ("", "-1", "+5", " 5", "1.5", "1_0", "\u0665", "x", "null", "9" * 5000):
        found = says({MIN: written})
        assert (found.start, found.end) == (-1, -1), written
    for written in ("V9_9_9", "HIGHER_VERSION", "", "../../etc"):
        assert says({VERSION: written}).release is None, written
    config = b"brokerName=b\nmappedFileSizeCommitLog=4096\nstorePathRootDir=/srv\nenableLmq=true\n"
    assert says({}, config).settings == {"mappedFileSizeCommitLog": "4096", "enableLmq": "true"}
    assert says({}, b"\xff\xfe=\n").settings == {}


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b'{"table":[]}', b'{"x":1}'])
def test_what_is_no_table_is_an_error_of_the_protocol(body: bytes) -> None:
    with pytest.raises(ProtocolError, match="GET_BROKER_RUNTIME_INFO"):
        Answered({RUNTIME_INFO: body, CONFIG: b""}).says()


@pytest.mark.parametrize(("name", "code"),
                         [("topics.json", 21), ("consumerOffset.json", 43),
                          ("delayOffset.json", 45), ("subscriptionGroup.json", 201)])  # fmt: skip
def test_files_of_config_are_asked_for_as_slavesynchronize_does(name: str, code: int) -> None:
    assert Answered({code: b"{}"}).config(name) == b"{}"
