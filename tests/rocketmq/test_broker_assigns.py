"""Push consumers that ask the broker which queues they read, and whether they pull or pop them."""

import pytest

from tests.rocketmq import seen, served
from tests.rocketmq.real_clients import Step
from tests.rocketmq.seen import Seen

pytestmark = [pytest.mark.rocketmq, pytest.mark.long]

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
        answers = served.ask(CLIENT, address, steps)
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
