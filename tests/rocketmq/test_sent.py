"""Real brokers take what `reput send` sends again: dead letters come back to their consumer."""

import json
import signal
import socket
import ssl
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from reput.broker.wire.codes import RequestCode
from reput.broker.wire.producing import Outgoing, request, send_request
from reput.jobs.opening.questions import open_store
from reput.jobs.replicating.peers import Cluster
from tests.built import Built
from tests.processes import until
from tests.rocketmq import real_clients
from tests.rocketmq.build import java_command
from tests.rocketmq.driver import SHORT_LIVED, Driver
from tests.rocketmq.live import SETTINGS, Broker, Client, free_port
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
    their first failure, which have no ORIGIN_MESSAGE_ID in some releases (RocketMQ #2868)."""
    store, checkpoint = tmp_path / "store", str(tmp_path / "checkpoint")
    words = ("--topic", f"%DLQ%{GROUP}", "--to-topic", "ORIGIN", "--checkpoint", checkpoint,
             "--batch", batch)  # fmt: skip
    with Broker(version, store, messageDelayLevel=SOON) as broker, Driver(version) as asked:
        client = Client(asked, broker.namesrv)
        sent = dead_letters(client, times)
        broker.catch_up()
        kills = 0
        for more in (2, 3, 4, 3):  # lines of the checkpoint: one before a request, one after it
            running = sent_until(lines_of(checkpoint) + more,
                                 send(store, broker.namesrv, *words, "--rate", "4"),
                                 checkpoint)  # fmt: skip
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


def test_what_goes_to_a_group_s_retry_topic_reaches_that_group_alone(version, tmp_path) -> None:
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
    offsets = [{message[4] for message in each} for each in (more, others)]
    assert offsets[0] <= offsets[1]  # where it was given anything, no letter is among it


TLS = Path(__file__).parent.parent / "jobs/sockets/tls"
OWN_CERTIFICATE = ("-Dtls.test.mode.enable=false", f"-Dtls.server.certPath={TLS / 'cert.pem'}",
                   f"-Dtls.server.keyPath={TLS / 'key.pem'}")  # fmt: skip
_AUTH = "org.apache.rocketmq.auth"
_LOCAL = "provider.Local{}MetadataProvider"
# Who may do all, and who may only send to TOPIC: by PlainPermissionManager of 4.9.7, or ACL 2.0.
ADMIN, SENDER = ("admin123", "secret12345"), ("sender123", "secret12345")
PLAIN_ACL = f"""accounts:
- {{accessKey: {ADMIN[0]}, secretKey: {ADMIN[1]}, admin: true}}
- {{accessKey: {SENDER[0]}, secretKey: {SENDER[1]}, defaultTopicPerm: DENY,
   defaultGroupPerm: DENY, topicPerms: [{TOPIC}=PUB]}}
"""
ACL_2 = {
    "authenticationEnabled": True, "authorizationEnabled": True,
    "authenticationProvider": f"{_AUTH}.authentication.provider.DefaultAuthenticationProvider",
    "authorizationProvider": f"{_AUTH}.authorization.provider.DefaultAuthorizationProvider",
    "authenticationMetadataProvider": f"{_AUTH}.authentication.{_LOCAL.format('Authentication')}",
    "authorizationMetadataProvider": f"{_AUTH}.authorization.{_LOCAL.format('Authorization')}",
    "initAuthenticationUser": json.dumps(dict(zip(("username", "password"), ADMIN, strict=True))),
}  # fmt: skip
OUTGOING = Outgoing((0, 0), TOPIC, 0, {"UNIQ_KEY": "none"}, b"refused", 0, 0)
TOPIC_FIELDS = {"topic": TOPIC, "defaultTopic": "TBW102", "readQueueNums": 4, "writeQueueNums": 4,
                "perm": 6, "topicFilterType": "SINGLE_TAG", "topicSysFlag": 0,
                "order": "false"}  # fmt: skip


@contextmanager
def real(
    version: str, home: Path, name: str, settings: dict[str, Any], *jvm: str
) -> Iterator[tuple[subprocess.Popen[bytes], tuple[str, int]]]:
    """RocketMQ's own main class, as its scripts start it, and its address."""
    port = free_port()
    conf = {"listenPort": port, "bindAddress": "127.0.0.1", **settings}
    path = home / f"{name}.conf"
    path.write_text("".join(f"{k}={str(v).lower() if v is True else v}\n" for k, v in conf.items()))
    java, *options, _ = java_command(version, home)
    main = f"{name.partition('-')[0]}.{'Namesrv' if name == 'namesrv' else 'Broker'}Startup"
    command = [java, *SHORT_LIVED[:2], *options, f"org.apache.rocketmq.{main}", "-c", str(path)]
    command[1:1] = [*jvm, *OWN_CERTIFICATE, f"-Drocketmq.home.dir={home}", "-Xmx512m"]
    with (home / f"{name}.log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        yield process, ("127.0.0.1", port)
    finally:
        process.kill()
        process.wait()


def up(address: tuple[str, int]) -> bool:
    with suppress(OSError), socket.create_connection(address, 1):
        return True
    return False


def come_up(home: Path, name: str, process: subprocess.Popen[bytes], at: tuple[str, int]) -> None:
    """Wait until it takes connections; where it has ended or does not, its log is shown."""
    until(lambda: up(at) or process.poll() is not None)
    assert up(at), (process.poll(), (home / f"{name}.log").read_text())


def may_send(version: str, cluster: Cluster, brokers: list[tuple[str, int]]) -> None:
    """Make the topic, and whom its brokers let send to it and read nothing."""
    user = {"username": SENDER[0], "password": SENDER[1], "userType": "Normal"}
    entry = {"resource": f"Topic:{TOPIC}", "actions": ["Pub"], "decision": "Allow"}
    subject = {"subject": f"User:{SENDER[0]}"}
    acl = {**subject, "policies": [{"policyType": "Custom", "entries": [entry]}]}
    asked = [request(RequestCode.UPDATE_AND_CREATE_TOPIC, TOPIC_FIELDS)]
    if version != "4.9.7":
        asked += [
            request(RequestCode.AUTH_CREATE_USER, user, json.dumps(user).encode()),
            request(RequestCode.AUTH_CREATE_ACL, subject, json.dumps(acl).encode()),
        ]
    for each in brokers:
        answers = [cluster.ask(each, command) for command in asked]
        assert not any(answer.code for answer in answers), answers


def test_two_brokers_of_a_route_by_tls_and_signed_of_which_one_dies(version, tmp_path) -> None:
    """They take nothing without TLS; the name server, by its default, either. None is lost."""
    (tmp_path / "conf").mkdir()
    for name in ("namesrv", "broker"):
        (tmp_path / f"conf/logback_{name}.xml").write_text("<configuration/>")
    (tmp_path / "conf/plain_acl.yml").write_text(PLAIN_ACL)
    keys = tmp_path / "keys"
    keys.write_text("accessKey: {}\nsecretKey: {}\n".format(*SENDER))
    keys.chmod(0o600)
    built = Built().put(TOPIC, 0, MANY, keys="k").derive()
    source, checkpoint = built.write(tmp_path / "source"), str(tmp_path / "checkpoint")
    acl = {"aclEnable": True} if version == "4.9.7" else ACL_2
    with ExitStack() as stack:
        started = stack.enter_context(real(version, tmp_path, "namesrv", {}))
        come_up(tmp_path, "namesrv", *started)
        names = started[1]
        there = [
            stack.enter_context(real(
                version, tmp_path, f"broker-{name}",
                {**SETTINGS, **acl, "brokerName": name, "brokerIP1": "127.0.0.1",
                 "namesrvAddr": "{}:{}".format(*names), "storePathRootDir": tmp_path / name,
                 "storePathCommitLog": tmp_path / name / "commitlog"},
                "-Dtls.server.mode=enforcing", "-Dtls.enable=true",
            ))
            for name in "ab"
        ]  # fmt: skip
        for name, each in zip("ab", there, strict=True):
            come_up(tmp_path, f"broker-{name}", *each)
        addresses = [address for _, address in there]
        trusts = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        trusts.check_hostname = False
        trusts.load_verify_locations(TLS / "cert.pem")
        cluster = stack.enter_context(closing(Cluster([names], ADMIN, trusts)))
        may_send(version, cluster, addresses)

        def route() -> int:
            cluster.forget(TOPIC)
            return len(cluster.route(TOPIC))

        assert until(lambda: route() == 2)
        words = ("--tls-ca", str(TLS / "cert.pem"), "--access-keys", str(keys),
                 "--checkpoint", checkpoint)  # fmt: skip
        namesrv = "{}:{}".format(*names)
        asked = send_request([OUTGOING], 0, 0)
        with closing(Cluster()) as plain, pytest.raises(OSError):
            plain.ask(addresses[0], asked)
        for wrong in (None, (SENDER[0], "secret123")):
            with closing(Cluster(None, wrong, trusts)) as other:
                assert other.ask(addresses[0], asked).code
        running = sent_until(12, send(source, namesrv, *words, "--rate", "10"), checkpoint)
        there[0][0].kill()
        whole = ended(running)
        assert (whole["sent"], whole["failed"]) == (MANY, 0)
    found = Counter(message.properties["UNIQ_KEY"] for name in "ab"
                    for message in open_store(str(tmp_path / name)).messages(TOPIC))  # fmt: skip
    assert len(found) == MANY
    assert found.total() - MANY <= len(whole["twice"]) <= 1
