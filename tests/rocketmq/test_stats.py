"""What `reput stats` counts in a log is what StoreStatsService counted as it was written."""

from pathlib import Path

import pytest

from reput.jobs.opening.questions import open_store
from tests.rocketmq.driver import Driver
from tests.rocketmq.puts import SIZES

pytestmark = pytest.mark.rocketmq


@pytest.mark.parametrize(
    "version",
    [
        pytest.param("4.9.7", marks=pytest.mark.long), "5.3.3",
        pytest.param("5.5.0", marks=pytest.mark.long),
    ],
)  # fmt: skip
def test_puts_by_topic(version: str, tmp_path: Path) -> None:
    """Plain, delayed and half messages, and batches."""
    messages = [
        {"t": f"T{n % 3}", "q": n % 2, "b": n * 31 % 500, "bs": n, "born": 1,
         "p": {"UNIQ_KEY": f"U{n}", "DELAY": str(n % 4 + 1)} if n % 5 == 0 else {"KEYS": f"k{n}"}}
        for n in range(200)
    ]  # fmt: skip
    messages += [
        {
            "t": "B", "q": 0,
            "batch": [{"b": 10 + i, "bs": i, "p": {"KEYS": f"b{i}"}} for i in range(n)],
        }
        for n in (1, 3, 7)
    ]  # fmt: skip
    store = tmp_path / "store"
    with Driver(version) as driver:
        answer = driver.ask("put", store=str(store), settings=SIZES, messages=messages,
                            as_broker=True)  # fmt: skip
    assert set(answer["statuses"]) == {"PUT_OK"}
    with open_store(str(store), settings={n: str(v) for n, v in SIZES.items()}) as opened:
        rows = opened.stats(("topic",))
    assert {row.topic: row.messages for row in rows} == answer["times"]
    assert {row.topic: row.bytes for row in rows} == answer["sizes"]
