"""gRPC clients of three languages by RocketMQ's own Proxy: from `reput serve` they are given what
the real broker gives them on the same store.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.rocketmq import seen, served
from tests.rocketmq.languages.expected import in_order, keys_of, same_messages
from tests.rocketmq.languages.programs import PROGRAMS, Received, consume, missing
from tests.rocketmq.proxies import proxy
from tests.rocketmq.seen import Seen
from tests.spread import spread
from tests.trees import contents

pytestmark = [pytest.mark.rocketmq, pytest.mark.long, pytest.mark.timeout(3600)]

VERSION = "5.3.3"
KEPT = "7"  # these messages are not acknowledged before their third time
ORDERED = "ordered"  # a group that is given each queue's messages in order
# name of the group: what its consumer is asked to read
SIMPLE: dict[str, dict[str, Any]] = {
    "all": {"topic": "Live0"}, "tag": {"topic": "Live1", "expression": "A"},
    "sql": {"topic": "Live1", "expression": "n > 300", "kind": "sql"},
    "kept": {"topic": "Live2", "kept": KEPT},
}  # fmt: skip
PUSH = {f"push-{name}": {**words, "mode": "push"} for name, words in SIMPLE.items()}
PUSH[ORDERED] = {"topic": "Live0", "mode": "push"}
CLIENTS = {"java": SIMPLE | {name: PUSH[name] for name in ("push-kept", ORDERED)},
           "python": {"kept": SIMPLE["kept"], "push-tag": PUSH["push-tag"]},
           "node": {"sql": SIMPLE["sql"]}}  # fmt: skip
READS = {"all": "each message once", "tag": "tags", "sql": "SQL92",
         "kept": "again what it does not acknowledge", ORDERED: "orderly"}  # fmt: skip


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> served.Made:
    made = served.make(VERSION, tmp_path_factory.mktemp("popped"))
    path = made.store / "config" / "subscriptionGroup.json"
    config = json.loads(path.read_text())
    groups = config["subscriptionGroupTable"]
    groups[ORDERED] = {**groups[served.GROUP], "groupName": ORDERED,
                       "consumeMessageOrderly": True}  # fmt: skip
    path.write_text(json.dumps(config))
    return made


def _by_grpc(language: str, version: str, namesrv: str, folder: Path) -> dict[str, list[Received]]:
    with proxy(version, namesrv, folder) as endpoint:
        return {
            group: consume(language, endpoint, group, **words, seconds=120, wanted=_wanted(words))
            for group, words in CLIENTS[language].items()
        }  # fmt: skip


def _wanted(words: dict[str, Any]) -> int:
    keys = keys_of(words["topic"], words.get("expression", "*"))
    return len(keys) + 2 * sum(
        KEPT in words.get("kept", "") and each.endswith(KEPT) for each in keys
    )


@pytest.mark.parametrize(("version", "language"), spread(["5.5.0", "5.3.3"], [*CLIENTS]))
def test_a_grpc_client_is_given_what_the_broker_gives(
    made: served.Made, language: str, version: str, folder: Path
) -> None:
    if reason := missing(language):
        pytest.skip(reason)
    before = contents(made.store)
    with served.by_broker(made, folder, brokerPermission=6) as namesrv:
        theirs = _by_grpc(language, version, namesrv, folder)
    with served.by_reput(made) as address:
        ours = _by_grpc(language, version, address, folder)
    assert contents(made.store) == before
    for group, words in CLIENTS[language].items():
        assert len(ours[group]) == _wanted(words), group
        same_messages(made, ours[group], theirs[group], words["topic"])
        if words.get("mode") != "push" or group == ORDERED:
            for received in (ours[group], theirs[group]):
                assert in_order(made, [each for each in received if each.attempt == 1]), group
    _note(language, version)


def _note(language: str, version: str) -> None:
    release = PROGRAMS[language].release
    for group, words in CLIENTS[language].items():
        kind = "PushConsumer" if words.get("mode") == "push" else "SimpleConsumer"
        name = f"gRPC {language.capitalize()}, {kind}"
        seen.note(Seen(name, release, f"Proxy {version}", READS[group.removeprefix("push-")]))
