"""Real brokers take what `reput send` sends again: dead letters come back to their consumer."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.built import Built
from tests.processes import until
from tests.rocketmq import real_clients
from tests.rocketmq.driver import Driver
from tests.rocketmq.live import Broker, Client
from tests.rocketmq.real_clients import VERSIONS

pytestmark = pytest.mark.rocketmq

TOPIC, GROUP, MANY = "Orders", "billing", 30
SOON = " ".join(["1s"] * 18)


@pytest.fixture(params=VERSIONS)
def version(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def send(store: Path, namesrv: str, *words: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "reput", "send", str(store), "--to", namesrv, "--yes"]
    return subprocess.Popen([*command, "--json", *words], stdout=subprocess.PIPE, text=True)


def ended(running: subprocess.Popen[str]) -> dict[str, Any]:
    """What a run that ended by itself says at its end."""
    out, _ = running.communicate(timeout=120)
    assert running.returncode == 0, out
    whole: dict[str, Any] = json.loads(out.splitlines()[-1])
    return whole


def pushed(version: str, namesrv: str, topic: str, group: str, least: int) -> list[list[Any]]:
    step = {"do": "push", "group": group, "topic": topic, "least": least, "quiet_ms": 2000}
    (found,) = real_clients.run(version, namesrv, [step])
    messages: list[list[Any]] = found["answer"]["messages"]
    return messages


def dead_letters(client: Client, times: int) -> set[str]:
    """Has a group fail on messages until they are dead letters; their UNIQ_KEYs."""
    made = [{"t": TOPIC, "q": n % 4, "b": 20, "bs": n, "p": {"KEYS": f"k{n}", "TAGS": "paid"}}
            for n in range(MANY)]  # fmt: skip
    sent = client.send(made)
    attempts = MANY * (times + 1)
    client.ask("fail", group=GROUP, topic=TOPIC, times=times, attempts=attempts, seconds=200)
    return {each[3] for each in sent}


def lines_of(path: str) -> int:
    try:
        return Path(path).read_bytes().count(b"\n")
    except FileNotFoundError:
        return 0


def sent_until(
    lines: int, running: subprocess.Popen[str], checkpoint: str
) -> subprocess.Popen[str]:
    """A process that sends, once its checkpoint has so many lines, or it has ended."""
    until(lambda: lines_of(checkpoint) >= lines or running.poll() is not None)
    return running


@pytest.mark.parametrize(("batch", "times"), [("1", 1), ("2", 0)])
def test_dead_letters_come_back_to_their_consumer_each_once(
    version: str, batch: str, times: int, tmp_path: Path
) -> None:
    """Sent while their broker runs, and killed again and again; also letters that were dead at
    their first failure, which have no ORIGIN_MESSAGE_ID in some releases (RocketMQ #2868).
    """
    store, checkpoint = tmp_path / "store", str(tmp_path / "checkpoint")
    words = ("--topic", f"%DLQ%{GROUP}", "--to-topic", "ORIGIN", "--checkpoint", checkpoint,
             "--batch", batch)  # fmt: skip
    with Broker(version, store, messageDelayLevel=SOON) as broker, Driver(version) as asked:
        client = Client(asked, broker.namesrv)
        sent = dead_letters(client, times)
        broker.catch_up()
        kills = 0
        for more in (2, 3, 4, 3):  # lines of the checkpoint: one before a request, one after it
            running = sent_until(
                lines_of(checkpoint) + more, send(store, broker.namesrv, *words, "--rate", "4"),
                checkpoint,
            )  # fmt: skip
            running.send_signal(signal.SIGKILL)
            running.communicate()
            kills += running.returncode == -signal.SIGKILL
        whole = ended(send(store, broker.namesrv, *words))
        # told by the broker: a consumer is given again what its group had not yet acknowledged
        stored = client.read((TOPIC,), whole=True)
        back = pushed(version, broker.namesrv, TOPIC, GROUP, MANY)
    found = Counter(message[3] for message in stored)
    assert {message[3] for message in back} == set(found) == sent
    assert min(found.values()) == 2  # as it was sent at first, and sent again
    twice = len(stored) - 2 * MANY
    assert kills >= 2
    assert 0 < whole["before"] < MANY
    assert twice <= len(whole["twice"]) <= kills
    assert whole["sent"] + whole["before"] == MANY
    for message in stored:
        names = {bytes.fromhex(name).decode("utf-16-be") for name in message[-2]}
        assert {"KEYS", "TAGS", "UNIQ_KEY"} <= names
        assert not {"RETRY_TOPIC", "ORIGIN_MESSAGE_ID", "REAL_TOPIC", "DELAY"} & names


def test_what_goes_to_a_group_s_retry_topic_reaches_that_group_alone(
    version: str, tmp_path: Path
) -> None:
    """Its listener is shown the topic that the letters were for."""
    store = tmp_path / "store"
    words = ("--topic", f"%DLQ%{GROUP}", "--to-topic", f"%RETRY%{GROUP}",
             "--checkpoint", str(tmp_path / "checkpoint"))  # fmt: skip
    with Broker(version, store, messageDelayLevel=SOON) as broker, Driver(version) as asked:
        sent = dead_letters(Client(asked, broker.namesrv), 0)
        others = pushed(version, broker.namesrv, TOPIC, "shipping", MANY)
        broker.catch_up()
        assert ended(send(store, broker.namesrv, *words))["sent"] == MANY
        back = pushed(version, broker.namesrv, TOPIC, GROUP, MANY)
        more = pushed(version, broker.namesrv, TOPIC, "shipping", 0)
    assert {message[3] for message in back} == {message[3] for message in others} == sent
    assert {message[0] for message in back} == {TOPIC}
    assert len(back) >= MANY  # or more: as above
    assert more == []


def test_a_broker_that_checks_signatures_takes_what_is_signed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PlainPermissionManager of 4.9.7 (later releases have it elsewhere, or not at all)."""
    keys = "accessKey: admin123\nsecretKey: "
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "plain_acl.yml").write_text(
        "accounts:\n- accessKey: admin123\n  secretKey: secret12345\n  admin: true\n"
    )
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", f"-Drocketmq.home.dir={tmp_path}")
    source = Built().put("T", 0, 5, keys="k").derive().write(tmp_path / "source")
    with Broker("4.9.7", tmp_path / "target", aclEnable=True) as broker:
        for name, secret, code in (("none", "", 1), ("other", "secret123", 1),
                                   ("own", "secret12345", 0)):  # fmt: skip
            path = tmp_path / name
            path.write_text(f"{keys}{secret}\n")
            path.chmod(0o600)
            words = ("--access-keys", str(path)) if secret else ()
            running = send(source, broker.namesrv, *words, "--to-topic", "BenchmarkTest",
                           "--checkpoint", f"{path}.jsonl")  # fmt: skip
            out, _ = running.communicate(timeout=120)
            whole = json.loads(out.splitlines()[-1])
            assert (running.returncode, whole["sent"]) == (code, 0 if code else 5)
            assert out.count("AclException") == (5 if code else 0)
