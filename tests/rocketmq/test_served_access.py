"""RocketMQ's own clients sign and encrypt what they ask `reput serve`, or are refused."""

import itertools
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests import golden_stores
from tests.jobs.sockets.asking import Peer
from tests.jobs.sockets.broker_answers import reported, requests
from tests.jobs.sockets.cutting import GIVEN, RELEASE, cut, differences, random_store, times
from tests.jobs.sockets.serving import Serving
from tests.rocketmq import real_clients
from tests.rocketmq.live import Broker
from tests.rocketmq.real_clients import Step
from tests.rocketmq.replicas import until

pytestmark = [pytest.mark.rocketmq, pytest.mark.long]

TOPIC, MESSAGES = "Live0", 1420
KEYS = {"access_key": "reader", "secret_key": "12345678"}
TLS = Path(__file__).parent.parent / "jobs/sockets/tls"
# TlsSystemConfig: a client trusts no certificate unless asked to
# each reads from the beginning: the store has offsets of groups of its own, g10 is one of them
_GROUPS = itertools.count()
TRUSTING = ("-Dtls.enable=true", "-Dtls.test.mode.enable=true")


def _words(folder: Path, *, keys: bool = False, tls: str = "") -> Iterator[str]:
    if keys:
        path = folder / "keys.yml"
        path.write_text("accessKey: reader\nsecretKey: 12345678\n")
        path.chmod(0o600)
        yield from ("--access-keys", str(path))
    if tls:
        (folder / "key.pem").write_bytes((TLS / "key.pem").read_bytes())
        (folder / "key.pem").chmod(0o600)
        yield from ("--tls-cert", str(TLS / "cert.pem"), "--tls-key", str(folder / "key.pem"))
    if tls == "required":
        yield "--tls-required"


def _serving(folder: Path, **words: Any) -> Serving:
    store = golden_stores.unpack("broker_clean_5.3.3").input
    return Serving(store, "--rocketmq", "5.3.3", *_words(folder, **words))


def _reported(client: str, address: str, *options: str, **more: Any) -> tuple[int, str]:
    """(messages of a push consumer and a look-up by key; what a tool learns of the cluster)."""
    refused = more.pop("refused", False)
    least = 0 if refused else MESSAGES
    steps: list[Step] = [
        {"do": "push", "group": f"new{next(_GROUPS)}", "topic": TOPIC, "least": least,
         "quiet_ms": 1000, **more},
        {"do": "find", "keys": [["Live2", "order603"]], **more},
        {"do": "admin", "calls": [["examineBrokerClusterInfo"]], **more},
    ]  # fmt: skip
    pushed, found, cluster = real_clients.run(client, address, steps, options=options)
    assert refused or "answer" in pushed, pushed["error"]
    messages = len(pushed["answer"]["messages"]) if "answer" in pushed else 0
    hits = found["answer"]["keys"][0] if "answer" in found else []
    text = cluster["answer"][0] if "answer" in cluster else cluster["error"]
    return messages + (len(hits) if isinstance(hits, list) else 0), str(text)


def _is_served(reported: tuple[int, str]) -> None:
    assert reported[0] == MESSAGES + 1
    assert "brokerAddrTable" in reported[1]


def test_signed_requests_are_answered_and_others_are_not(tmp_path: Path) -> None:
    client = "5.5.0"
    with _serving(tmp_path, keys=True) as serving:
        _is_served(_reported(client, serving.address, **KEYS))
        unsigned = _reported(client, serving.address, refused=True)
        forged = {**KEYS, "secret_key": "12345679"}
        wrong = _reported(client, serving.address, **forged, refused=True)
    assert unsigned[0] == wrong[0] == 0
    assert "CODE: 16" in unsigned[1]
    assert "No accessKey is configured" in unsigned[1]
    assert "Check signature failed for accessKey=reader" in wrong[1]


def test_tls_is_taken_where_it_may_be_and_wanted_where_it_must(tmp_path: Path) -> None:
    client = "4.9.7"
    with _serving(tmp_path, tls="permissive") as serving:
        _is_served(_reported(client, serving.address, *TRUSTING, tls=True))
        _is_served(_reported(client, serving.address))
    with _serving(tmp_path, tls="required", keys=True) as serving:
        _is_served(_reported(client, serving.address, *TRUSTING, **KEYS, tls=True))
        plain = _reported(client, serving.address, **KEYS, refused=True)
    assert plain[0] == 0
    assert "brokerAddrTable" not in plain[1]


# --- `reput serve --at` beside a real broker whose log ended at that time: random stores.


def test_at_a_time_is_as_a_real_broker_that_was_stopped_then(tmp_path: Path) -> None:
    seed, store = 10, tmp_path / "store"
    random_store(seed, store)
    asked = list(requests(store))
    time = times(seed, store)[0]
    cut(store, time, tmp_path / "cut")
    settings = {name: int(size) for name, size in GIVEN.items() if name != "brokerName"}
    with (
        Broker(RELEASE, tmp_path / "cut", brokerPermission=4, **settings) as broker,
        Peer(f"127.0.0.1:{broker.port}") as peer,
    ):
        assert until(lambda: broker.status()["behind"] == 0)
        wrong = list(differences(store, time, asked, lambda each: reported(peer.ask(each))))
    assert not wrong, (len(wrong), len(asked), wrong[:3])


# --- What docs/serve.md shows: a client and the dashboard's requests against a damaged store.

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


def test_clients_and_the_dashboard_see_all_but_the_damaged_message() -> None:
    # 4.9.7's consumer fails by itself at a message without a body (ProcessQueue.putMessage)
    store = golden_stores.unpack("middle_crc_5.3.3").input
    with Serving(store, "--rocketmq", "5.3.3", "--salvage", seconds=300) as serving:
        *pushed, admin = real_clients.run("5.5.0", serving.address, steps(serving.address))
    places = sorted(message[4] for each in pushed for message in each["answer"]["messages"])
    assert len(set(places)) == len(places)
    assert places[0] < DAMAGED < places[-1]
    assert DAMAGED not in places
    reported = admin["answer"]
    assert not [each for each in reported if "CODE" in str(each)]
    ends = [int(end) for each in reported[2:7] for end in re.findall(r'"maxOffset":(\d+)', each)]
    assert sum(ends) == len(places)
    assert set(TOPICS) <= set(json.loads(reported[1])["topicList"])
