"""RocketMQ's own clients sign and encrypt what they ask `reput serve`, or are refused."""

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests import golden_stores
from tests.jobs.sockets.serving import Serving
from tests.rocketmq import real_clients, seen, served
from tests.rocketmq.real_clients import Step
from tests.rocketmq.seen import Seen

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


# --- Push consumers that ask the broker which queues they read, and whether they pull or pop them.

VERSION, CLIENT = "5.3.3", "5.5.0"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> served.Made:
    return served.make(VERSION, tmp_path_factory.mktemp("popped"))


def _push(group: str, **more: object) -> Step:
    return {"do": "push", "group": group, "topic": "Live0", "least": served.EACH,
            "broker_balances": True, **more}  # fmt: skip


def test_a_push_consumer_whose_broker_says_which_queues_it_reads(made) -> None:
    """By pulls and by POP: each message, whatever the mode; three members share them."""
    steps = [_push("pull"), _push("pulls", members=3), _push("ordered", orderly=True)]
    for group in ("pop", "pops"):
        words = ("-b", f"127.0.0.1:{made.port}", "-t", "Live0", "-g", group, "-m", "POP", "-q", 8)
        steps.append(served.mqadmin("setConsumeMode", *words))
    steps += [_push("pop"), _push("pops", members=3)]
    with served.by_reput(made) as address:
        answers = real_clients.run(CLIENT, address, steps)
    places = {(topic, queue, offset) for topic, queue, offset, *_ in made.sent if topic == "Live0"}
    for step, answer in zip(steps, answers, strict=True):
        if step["do"] == "push":
            assert "answer" in answer, answer["error"]
            messages = answer["answer"]["messages"]
            assert {tuple(message[:3]) for message in messages} == places, step
            if "members" not in step:
                assert len(messages) == len(places), step
        else:
            assert "success" in str(answer).lower(), answer
    for reads in ("pulls of the queues that the broker assigns", "orderly", "POP"):
        seen.note(Seen("Java, push with clientRebalance=false", CLIENT, "remoting", reads))
