"""Messages by key, and one by its place: whole records, and only those that are served."""

from pathlib import Path
from typing import Any

import pytest

from reput.broker.serving.broker import Answer
from reput.broker.serving.reading import whole_record
from reput.broker.wire.codes import RequestCode, ResponseCode
from reput.store_format.message.message import Message
from tests.broker.serving.served import STEP, T0, served
from tests.jobs.sockets.asked import Asked
from tests.jobs.sockets.comparing import whole

MANY = 40


@pytest.fixture(scope="module")
def asked(tmp_path_factory: pytest.TempPathFactory) -> Asked:
    """Forty messages of one length with the key k; each third one has the key t too."""
    made = (
        Message("T", b"%02d" % n, keys="k t" if n % 3 == 0 else "k u", unique_key=f"U{n:02d}")
        for n in range(MANY)
    )
    return served(tmp_path_factory.mktemp("store"), made, mappedFileSizeCommitLog=1 << 14)


def size(asked: Asked) -> int:
    return asked.broker.store.log.record_at(0).size


def by_key(asked: Asked, key: str, most: int = 64, **more: Any) -> Answer:
    fields = {"topic": "T", "key": key, "maxNum": most, "beginTimestamp": 0,
              "endTimestamp": T0 + 10**6, **more}  # fmt: skip
    return asked.ask(RequestCode.QUERY_MESSAGE, 1, **fields)


def raw(asked: Asked, number: int) -> bytes:
    log = (Path(asked.broker.store.opened.path) / "commitlog" / f"{0:020d}").read_bytes()
    return log[number * size(asked) : (number + 1) * size(asked)]


def test_the_newest_are_given_in_the_logs_order(asked: Asked) -> None:
    answer = by_key(asked, "t", 2)
    assert answer.code == ResponseCode.SUCCESS
    assert whole(answer).body == raw(asked, 36) + raw(asked, 39)
    assert answer.fields == {
        "indexLastUpdateTimestamp": str(T0 + 39 * STEP),
        "indexLastUpdatePhyoffset": str(39 * size(asked)),
    }
    assert whole(by_key(asked, "k", 64)).body == b"".join(raw(asked, n) for n in range(MANY))
    assert whole(by_key(asked, "U07")).body == raw(asked, 7)


def test_a_query_by_unique_key_is_of_32_at_most(asked: Asked) -> None:
    found = by_key(asked, "k", 64, _UNIQUE_KEY_QUERY="true")
    assert len(whole(found).body) == 32 * size(asked)
    assert len(whole(by_key(asked, "k", 1, _UNIQUE_KEY_QUERY="true")).body) == 32 * size(asked)
    assert len(whole(by_key(asked, "k", 33, _UNIQUE_KEY_QUERY="false")).body) == 33 * size(asked)


@pytest.mark.parametrize("more", [{"key": "none"}, {"topic": "U"}, {"endTimestamp": T0 - 1}])
def test_what_is_not_found_is_told(asked: Asked, more: dict[str, Any]) -> None:
    answer = by_key(asked, **{"key": "k", **more})
    assert answer.code == ResponseCode.QUERY_NOT_FOUND
    assert set(answer.fields.values()) == {"0"}


def test_a_message_is_found_by_its_place_alone(asked: Asked) -> None:
    code = RequestCode.VIEW_MESSAGE_BY_ID
    assert whole(asked.ask(code, 1, offset=3 * size(asked))).body == raw(asked, 3)
    for place in (3 * size(asked) + 1, MANY * size(asked), -1, 1 << 40):
        answer = asked.ask(code, 1, offset=place)
        assert (answer.code, answer.pieces) == (ResponseCode.SYSTEM_ERROR, ())


def test_what_is_not_served_is_not_found(asked: Asked, monkeypatch: pytest.MonkeyPatch) -> None:
    place = 5 * size(asked)
    assert whole_record(asked.broker, place) is not None
    monkeypatch.setattr(asked.broker.store, "limit", place)
    assert whole_record(asked.broker, place) is None
    assert whole_record(asked.broker, place - size(asked)) is not None
