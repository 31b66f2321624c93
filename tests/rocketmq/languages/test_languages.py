"""Clients in other languages, by RocketMQ's own Proxy and by remoting: from `reput serve` they are
given what the real broker gives them on the same store."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.rocketmq import real_clients, seen, served
from tests.rocketmq.languages.programs import FOLDER, PROGRAMS, Received, consume, missing
from tests.rocketmq.live import TOPICS
from tests.rocketmq.proxies import proxy
from tests.rocketmq.seen import Seen
from tests.seeds import spread
from tests.trees import contents


def LONG(test: Callable[..., None]) -> Callable[..., None]:
    """One that asks clients and a broker: cargo takes a quarter of an hour for Rust's client."""
    return pytest.mark.rocketmq(pytest.mark.long(pytest.mark.timeout(3600)(test)))


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
    return len(keys) + 2 * sum(KEPT in words.get("kept", "") and each.endswith(KEPT)
                               for each in keys)  # fmt: skip


_CHOSEN: dict[str, Callable[[int], bool]] = {"*": lambda n: True, "A": lambda n: n % 2 == 0,
                                             "n > 300": lambda n: n > 300}  # fmt: skip


def keys_of(topic: str, expression: str) -> list[str]:
    """The own key of each message of a topic that a filter lets through (live.messages)."""
    chosen = _CHOSEN[expression]
    numbers = (n for n in range(served.SENT) if TOPICS[n % len(TOPICS)] == topic)
    return [f"key{n}" for n in numbers if chosen(n)]


def same_messages(
    made: served.Made, ours: Sequence[Received], theirs: Sequence[Received], topic: str
) -> None:
    """The same messages, as often, with the same keys and bodies; all of them the topic's."""
    assert sorted(ours) == sorted(theirs)
    # its producer's id, or the broker's: Rust's client names it by that
    of_topic = {each for name, _, _, *ids in made.sent if name == topic for each in ids}
    assert {each.id for each in ours} <= of_topic
    assert len({(each.id, each.attempt) for each in ours}) == len(ours)


def in_order(made: served.Made, received: Sequence[Received]) -> bool:
    """Whether each queue's messages came one after the other."""
    places = {each: (queue, offset) for _, queue, offset, *ids in made.sent for each in ids}
    found: dict[int, list[int]] = {}
    for each in received:
        queue, offset = places[each.id]
        found.setdefault(queue, []).append(offset)
    return all(offsets == sorted(offsets) for offsets in found.values())


def _both(
    made: served.Made, language: str, folder: Path, read: Callable[[str], Any]
) -> tuple[dict[str, list[Received]], dict[str, list[Received]]]:
    """What is read from the broker, and from us."""
    if reason := missing(language):
        pytest.skip(reason)
    before = contents(made.store)
    with served.by_broker(made, folder, brokerPermission=6) as namesrv:
        theirs = read(namesrv)
    with served.by_reput(made) as address:
        ours = read(address)
    assert contents(made.store) == before
    return theirs, ours


@LONG
@pytest.mark.parametrize(("version", "language"), spread(["5.5.0", "5.3.3"], [*CLIENTS]))
def test_a_grpc_client_is_given_what_the_broker_gives(made, language, version, folder) -> None:
    theirs, ours = _both(made, language, folder, lambda at: _by_grpc(language, version, at, folder))
    for group, words in CLIENTS[language].items():
        assert len(ours[group]) == _wanted(words), group
        same_messages(made, ours[group], theirs[group], words["topic"])
        if words.get("mode") != "push" or group == ORDERED:
            for received in (ours[group], theirs[group]):
                assert in_order(made, [each for each in received if each.attempt == 1]), group
        kind = "PushConsumer" if words.get("mode") == "push" else "SimpleConsumer"
        name, release = f"gRPC {language.capitalize()}, {kind}", PROGRAMS[language].release
        seen.note(Seen(name, release, f"Proxy {version}", READS[group.removeprefix("push-")]))


# --- Remoting clients of Go and Rust.
# name of the group: what its consumer is asked to read
BOTH: dict[str, dict[str, Any]] = {
    "push": {"topic": "Live0"}, "orderly": {"topic": "Live0", "mode": "orderly"},
    "broadcast": {"topic": "Live2", "mode": "broadcast"},
    "tags": {"topic": "Live1", "expression": "A"},
    "SQL92": {"topic": "Live1", "expression": "n > 300", "kind": "sql"},
}  # fmt: skip
REMOTING = {"go": BOTH | {"pull": {"topic": "Live2", "mode": "pull"}},
            "rust": BOTH | {"POP": {"topic": "Live2", "mode": "pop"}}}  # fmt: skip


def _by_remoting(made: served.Made, language: str, namesrv: str) -> dict[str, list[Received]]:
    if "POP" in REMOTING[language]:
        words = ("-b", f"127.0.0.1:{made.port}", "-t", "Live2", "-g", "POP", "-m", "POP", "-q", 8)
        (said,) = real_clients.run(VERSION, namesrv, [served.mqadmin("setConsumeMode", *words)])
        assert "success" in str(said).lower(), said
    return {
        group: consume(language, namesrv, group, **{"mode": "push", **words}, wanted=_wanted(words))
        for group, words in REMOTING[language].items()
    }


@LONG
@pytest.mark.parametrize("language", REMOTING)
def test_a_remoting_client_is_given_what_the_broker_gives(made, language: str, folder) -> None:
    theirs, ours = _both(made, language, folder, lambda at: _by_remoting(made, language, at))
    for group, words in REMOTING[language].items():
        assert len(ours[group]) == _wanted(words), group
        same_messages(made, ours[group], theirs[group], words["topic"])
        if group in ("orderly", "pull"):
            assert in_order(made, ours[group]), group
    name, release = language.capitalize(), PROGRAMS[language].release
    seen.note(*(Seen(name, release, "remoting", reads) for reads in REMOTING[language]))


# --- What the page says of a client's release is what its lock file pins. (Java's jars are fetched
# by that release.)
@pytest.mark.parametrize("language", [name for name in PROGRAMS if name != "java"])
def test_a_program_pins_the_release_that_it_is_shown_with(language: str) -> None:
    program = PROGRAMS[language]
    assert program.release in (FOLDER / language / program.pinned_in).read_text()


# --- docs/serve.md's table of clients is what the tests have noted.
def test_the_page_shows_what_was_seen() -> None:
    assert seen.noted()
    assert seen.page_table() == seen.table()
