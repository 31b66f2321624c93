"""Remoting clients of Go and Rust: from `reput serve` they are given what the real broker gives
them on the same store.
"""

from pathlib import Path
from typing import Any

import pytest

from tests.rocketmq import seen, served
from tests.rocketmq.languages.expected import in_order, keys_of, same_messages
from tests.rocketmq.languages.programs import PROGRAMS, Received, consume, missing
from tests.rocketmq.seen import Seen
from tests.trees import contents

# cargo takes a quarter of an hour for Rust's client, on two cores with a load of 20
pytestmark = [pytest.mark.rocketmq, pytest.mark.long, pytest.mark.timeout(3600)]

VERSION = "5.3.3"
# name of the group: what its consumer is asked to read
BOTH: dict[str, dict[str, Any]] = {
    "push": {"topic": "Live0"}, "orderly": {"topic": "Live0", "mode": "orderly"},
    "broadcast": {"topic": "Live2", "mode": "broadcast"},
    "tags": {"topic": "Live1", "expression": "A"},
    "SQL92": {"topic": "Live1", "expression": "n > 300", "kind": "sql"},
}  # fmt: skip
CLIENTS = {"go": BOTH | {"pull": {"topic": "Live2", "mode": "pull"}},
           "rust": BOTH | {"POP": {"topic": "Live2", "mode": "pop"}}}  # fmt: skip


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> served.Made:
    return served.make(VERSION, tmp_path_factory.mktemp("languages"))


def _read(made: served.Made, language: str, namesrv: str) -> dict[str, list[Received]]:
    if "POP" in CLIENTS[language]:
        words = ("-b", f"127.0.0.1:{made.port}", "-t", "Live2", "-g", "POP", "-m", "POP", "-q", 8)
        (said,) = served.ask(VERSION, namesrv, [served.mqadmin("setConsumeMode", *words)])
        assert "success" in str(said).lower(), said
    return {
        group: consume(language, namesrv, group, **{"mode": "push", **words}, wanted=_wanted(words))
        for group, words in CLIENTS[language].items()
    }


def _wanted(words: dict[str, Any]) -> int:
    return len(keys_of(words["topic"], words.get("expression", "*")))


@pytest.mark.parametrize("language", CLIENTS)
def test_a_remoting_client_is_given_what_the_broker_gives(
    made: served.Made, language: str, folder: Path
) -> None:
    if reason := missing(language):
        pytest.skip(reason)
    before = contents(made.store)
    with served.by_broker(made, folder, brokerPermission=6) as namesrv:
        theirs = _read(made, language, namesrv)
    with served.by_reput(made) as address:
        ours = _read(made, language, address)
    assert contents(made.store) == before
    for group, words in CLIENTS[language].items():
        assert len(ours[group]) == _wanted(words), group
        same_messages(made, ours[group], theirs[group], words["topic"])
        if group in ("orderly", "pull"):
            assert in_order(made, ours[group]), group
    name, release = language.capitalize(), PROGRAMS[language].release
    seen.note(*(Seen(name, release, "remoting", reads) for reads in CLIENTS[language]))
