"""What real brokers of three releases answered about golden stores is what we answer."""

import json
import re
from pathlib import Path

import pytest

from reput.broker.serving.handlers import answer, reply
from reput.broker.wire.codes import RequestCode
from reput.jobs.sockets.opened import ServedSource, open_broker
from tests.jobs.sockets.asking import request
from tests.jobs.sockets.broker_answers import NAME, STORES, prepared, recorded, reported
from tests.jobs.sockets.comparing import CALLER, plain, whole


def passes_over(fields: dict[str, str]) -> bool:
    """A pull from a light queue's first position, where a pre-blank stands: a broker passes over
    all messages of the segment that the pre-blank seems to be of, and we over the pre-blank alone.
    """
    return fields.get("topic", "").startswith("%LMQ%") and fields.get("queueOffset") == "0"


@pytest.mark.parametrize("name", STORES)
def test_a_broker_and_we_answer_alike(name: str, tmp_path: Path) -> None:
    compare(name, tmp_path, 4)


@pytest.mark.long
@pytest.mark.parametrize("name", STORES)
def test_a_broker_and_we_answer_alike_to_all(name: str, tmp_path: Path) -> None:
    compare(name, tmp_path, 1)


def compare(name: str, tmp_path: Path, every: int) -> None:
    """Ask what a broker was asked: one request of so many."""
    store, settings = prepared(name, tmp_path)
    given = {"brokerName": NAME} | {each: str(value) for each, value in settings.items()}
    broker = open_broker(ServedSource(str(store), STORES[name], given), lambda _: None)
    wrong, many = [], 0
    for asked, theirs in recorded(name)[::every]:
        said = answer(broker, asked, CALLER)
        ours = plain(reported(reply(broker, asked, whole(said))), name)
        many += 1
        if ours != plain(theirs, name) and not passes_over(asked.fields):
            wrong.append((asked.code, asked.fields, ours, plain(theirs, name)))
    assert many > 400
    assert not wrong, f"{len(wrong)} of {many}, such as {wrong[:3]}"


def test_routes_are_those_of_a_real_name_server(tmp_path: Path) -> None:
    store, _ = prepared("mixed_5.5.0", tmp_path)
    given = {"brokerName": NAME, "brokerClusterName": NAME}
    caught = json.loads((Path(__file__).parents[2] / "broker/wire/frames.json").read_text())
    theirs = [bytes.fromhex(row["hex"]) for row in caught if row.get("asked") == "105"]
    # one that reads standard JSON, and not
    for raw, version in zip(theirs, (479, 0), strict=False):
        body = raw[8 + int.from_bytes(raw[5:8], "big") :]
        address = re.search(rb"127.0.0.1:[0-9]+", body)
        assert address is not None
        source = ServedSource(str(store), "5.5.0", given, address=address[0].decode())
        broker = open_broker(source, lambda _: None)
        asked = request(RequestCode.GET_ROUTEINFO_BY_TOPIC, topic="Topic0")
        said = answer(broker, asked._replace(version=version), CALLER)
        assert said.body == body.replace(b'"perm":6', b'"perm":4')
