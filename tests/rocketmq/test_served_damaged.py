"""What docs/serve.md shows: a client and the dashboard's requests against a damaged store."""

import json
import re
from typing import Any

import pytest

from tests import golden_stores
from tests.jobs.sockets.serving import Serving
from tests.rocketmq import real_clients
from tests.rocketmq.real_clients import VERSIONS, Step

pytestmark = [pytest.mark.rocketmq, pytest.mark.long]

DAMAGED = 270_392  # the record whose body does not match its CRC
TOPICS = tuple(f"Topic{n}" for n in range(5))


def steps(address: str) -> list[Step]:
    pushed: list[Step] = [
        {"do": "push", "group": "look", "topic": topic, "least": 100} for topic in TOPICS
    ]
    calls: list[list[Any]] = [
        ["examineBrokerClusterInfo"], ["fetchAllTopicList"],
        *(["examineTopicStats", topic] for topic in TOPICS),
        ["examineTopicRouteInfo", "Topic0"], ["fetchBrokerRuntimeStats", address],
        ["examineConsumeStats", "look"], ["queryTopicConsumeByWho", "Topic0"],
        ["getAllSubscriptionGroup", address, 3000], ["getBrokerConfig", address],
    ]  # fmt: skip
    return [*pushed, {"do": "admin", "calls": calls}]


# 4.9.7's consumer fails by itself at a message without a body (ProcessQueue.putMessage)
@pytest.mark.parametrize("client", [version for version in VERSIONS if version > "5"])
def test_clients_and_the_dashboard_see_all_but_the_damaged_message(client: str) -> None:
    store = golden_stores.unpack("middle_crc_5.3.3").input
    with Serving(store, "--rocketmq", "5.3.3", "--salvage", seconds=300) as serving:
        *pushed, admin = real_clients.run(client, serving.address, steps(serving.address))
    places = sorted(message[4] for each in pushed for message in each["answer"]["messages"])
    assert len(set(places)) == len(places)
    assert places[0] < DAMAGED < places[-1]
    assert DAMAGED not in places
    reported = admin["answer"]
    assert not [each for each in reported if "CODE" in str(each)]
    ends = [int(end) for each in reported[2:7] for end in re.findall(r'"maxOffset":(\d+)', each)]
    assert sum(ends) == len(places)
    assert set(TOPICS) <= set(json.loads(reported[1])["topicList"])
