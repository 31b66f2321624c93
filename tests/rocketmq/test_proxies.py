"""gRPC clients by RocketMQ's own Proxy, and remoting clients that pop: from `reput serve` they get
what they get from the real broker on the same store.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.rocketmq import seen, served
from tests.rocketmq.proxies import CLIENT_VERSION, Received, proxy, simple
from tests.rocketmq.real_clients import Step
from tests.rocketmq.seen import Seen

pytestmark = [pytest.mark.rocketmq, pytest.mark.long]

VERSION = "5.3.3"


@pytest.fixture(scope="module")
def made(
    tmp_path_factory: pytest.TempPathFactory, needs_rocketmq: Callable[[str], None]
) -> served.Made:
    needs_rocketmq(VERSION)
    return served.make(VERSION, tmp_path_factory.mktemp("popped"))


def _contents(store: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in store.rglob("*") if path.is_file()}


def _by_grpc(version: str, namesrv: str, folder: Path) -> dict[str, list[Received]]:
    with proxy(version, namesrv, folder) as endpoint:
        return {
            "all": simple(endpoint, "all", "Live0", wanted=served.EACH),
            "tag": simple(endpoint, "tag", "Live1", expression="A", wanted=served.EACH // 2),
            "sql": simple(endpoint, "sql", "Live1", expression="n > 300", kind="sql", seconds=15),
            "kept": simple(endpoint, "kept", "Live2", kept=5, wanted=served.EACH + 40),
        }


@pytest.mark.parametrize("version", ["5.3.3", "5.5.0"])
def test_a_simple_consumer_gets_each_message_once_and_again_what_it_keeps(
    made: served.Made, version: str, folder: Path
) -> None:
    before = _contents(made.store)
    with served.by_broker(made, folder, brokerPermission=6) as namesrv:
        theirs = _by_grpc(version, namesrv, folder)
    with served.by_reput(made) as address:
        ours = _by_grpc(version, address, folder)
    assert _contents(made.store) == before
    for name, received in ours.items():
        first = [each for each in received if each.attempt == 1]
        assert sorted(first) == sorted(each for each in theirs[name] if each.attempt == 1), name
        assert len(first) == len({each.id for each in first})
    assert {len(ours[name]) for name in ("all", "tag")} == {served.EACH, served.EACH // 2}
    again = [each for each in ours["kept"] if each.attempt == 2]
    how = f"RocketMQ's Proxy {version}, cluster mode"
    reads = ("each message once", "again what it does not acknowledge", "tags", "SQL92")
    seen.note(*(Seen("gRPC Java, SimpleConsumer", CLIENT_VERSION, how, each) for each in reads))
    assert len(again) == 40
    assert {each.id for each in again} <= {each.id for each in ours["kept"] if each.attempt == 1}


def _push(group: str, **more: object) -> Step:
    return {
        "do": "push", "group": group, "topic": "Live0", "least": served.EACH,
        "broker_balances": True, **more,
    }  # fmt: skip


@pytest.fixture(params=["5.3.3", "5.5.0"])
def client(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_a_push_consumer_whose_broker_says_which_queues_it_reads(
    made: served.Made, client: str
) -> None:
    """By pulls and by POP: each message, whatever the mode; three members share them."""
    steps = [_push("pull"), _push("pulls", members=3), _push("ordered", orderly=True)]
    for group in ("pop", "pops"):
        words = ("-b", f"127.0.0.1:{made.port}", "-t", "Live0", "-g", group, "-m", "POP", "-q", 8)
        steps.append(served.mqadmin("setConsumeMode", *words))
    steps += [_push("pop"), _push("pops", members=3)]
    with served.by_reput(made) as address:
        answers = served.ask(client, address, steps)
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
    for reads in ("queues that the broker assigns, by pulls", "orderly", "and by POP"):
        seen.note(Seen("Java, push with clientRebalance=false", client, "remoting", reads))
