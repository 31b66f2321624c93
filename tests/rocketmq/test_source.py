"""The source's rows are what a real client is given by a broker on the same store."""

import time
from pathlib import Path

import pytest

from tests.jobs.sources.reading import table
from tests.logs.encoder import Message, build_log, properties
from tests.rocketmq.driver import Driver
from tests.rocketmq.live import SETTINGS, TOPICS, Broker, Client

pytestmark = [pytest.mark.rocketmq, pytest.mark.long]

# As they stand in records: malformed UTF-8, empty names and values, one name twice, very many, no
# end, separators in odd places, text of all planes, line ends and NULs.
_HOSTILE = [
    properties(("KEYS", "a  b"), ("TAGS", "t"), ("n", "1")),
    properties(("a", "1"), ("b", "2"), ("a", "3")),
    properties((b"\xc3", b"\xe4\xb8"), (b"\xed\xa0\x80", b"\xf4\x90\x80\x80"), (b"x", b"\xff\xfe")),
    properties(*((f"n{i}", f"v{i}") for i in range(200))),
    properties(("区", "😀"), ("\u202ename", "<script>\u2028"), ("nul", "a\0b"), ("line", "\r\n\t")),
    b"x\x01\x02\x01\x02noise\x02KEYS\x01 a  b \x02x\x01y\x01z", b"\x01\x02\x01v\x02name\x01",
    b"only a name", properties(("long", "v" * 30_000)),
    properties((b"bom", b"\xef\xbb\xbfx"), (b"overlong", b"\xc0\x80\xe0\x80\x80")),
    properties((b"half", b"\xe2\x82")), b"",
]  # fmt: skip
_CLIENTS_OWN = {"MIN_OFFSET", "MAX_OFFSET"}  # PullAPIWrapper.processPullResult


def _hex(text: str) -> str:
    return text.encode("utf-16-be").hex()


def test_hostile_properties_are_what_a_client_is_given(folder: Path) -> None:
    """Char for char, of records that no client would send, and bodies byte for byte."""
    version = "4.9.7"
    store, size = folder / "store", int(str(SETTINGS["mappedFileSizeCommitLog"]))
    made = [
        Message(topic=TOPICS[n % 2], queue_id=0, queue_offset=n // 2, properties=raw,
                body=bytes(range(256)) * (n % 3), store_timestamp=int(time.time() * 1000))
        for n, raw in enumerate(_HOSTILE)
    ]  # fmt: skip
    (store / "commitlog").mkdir(parents=True)
    for start, content in build_log(made, size).items():
        (store / "commitlog" / f"{start:020d}").write_bytes(content)
    with Driver(version) as client, Broker(version, store) as broker:
        asking = Client(client, broker.namesrv)
        for topic in TOPICS[:2]:  # a client finds no topic that no broker names
            asking.send([{"t": topic, "q": 3, "b": 1, "bs": 1, "p": {}}])
        consumed = asking.read(TOPICS[:2], group="all", whole=True)
        broker.stop()
    reported = {
        tuple(message[:3]): (
            {n: v for n, v in message[8].items() if n not in set(map(_hex, _CLIENTS_OWN))},
            message[9],
        )
        for message in consumed if message[1] == 0
    }  # fmt: skip
    rows = table(store, rocketmq=version, subscribe=",".join(TOPICS[:2])).to_pylist()
    ours = {
        (row["topic"], row["queueId"], row["queueOffset"]): (
            {_hex(name): _hex(value) for name, value in row["properties"]}, row["body"].hex(),
        )
        for row in rows if row["queueId"] == 0
    }  # fmt: skip
    assert len(ours) == len(_HOSTILE)
    assert ours == reported
