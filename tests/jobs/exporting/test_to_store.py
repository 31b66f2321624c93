"""A store of chosen messages: all that they have, new positions, nothing that is redacted."""

import hashlib
import json
import os
import shutil
import signal
from pathlib import Path
from typing import Any

import pytest

from reput.jobs.cli import main
from reput.jobs.export import export
from reput.store_format.faults import StoreError
from reput.store_format.release.settings import SettingError
from reput.store_format.state_table import TOPICS_OF_STATE
from tests import golden_stores
from tests.damaged import damaged, messages
from tests.faults.killing import killed_at
from tests.jobs.sources.exporting import SAME, topics
from tests.jobs.sources.reading import table, write
from tests.logs.encoder import Message, properties

SMALL = {"maxHashSlotNum": "100", "maxIndexNum": "400", "mappedFileSizeConsumeQueue": "2000"}


def run(store: Path, to: Path, **options: Any) -> Any:
    return export(None, str(store), str(to), format="rocketmq", **options)


def test_a_store_of_some_topics_has_their_messages(tmp_path: Path) -> None:
    store = golden_stores.unpack("small_odd_5.5.0").input
    of_state = tuple(each.topic for each in TOPICS_OF_STATE)
    chosen = [each for each in topics(store) if not each.startswith(of_state)][:2]
    done = run(store, tmp_path / "made", rocketmq="5.5.0", topics=chosen)
    wanted = table(store, rocketmq="5.5.0", subscribe=",".join(chosen))
    made = table(tmp_path / "made", rocketmq="5.5.0")
    assert made.num_rows == wanted.num_rows == done.messages > 0
    for name in SAME:
        assert made[name].to_pylist() == wanted[name].to_pylist(), name
    assert sorted(os.listdir(tmp_path)) == ["made"]
    assert {"commitlog", "consumequeue", "config"} <= set(os.listdir(tmp_path / "made"))


@pytest.mark.parametrize(("topic", "why", "queues"), [
    ("é" * 64, ": 128 bytes; at most 127", False), ("Batch", "'Batch': has queue.type Ba", False),
    ("Batch", "'Batch': has queue.type Ba", True),
])  # fmt: skip
def test_a_topic_that_no_writer_takes_is_refused(topic, why: str, queues, tmp_path, capsys) -> None:
    """Before anything is made where the store has queues, else at the first of its messages."""
    made = [
        Message(name, properties=properties(("KEYS", "k")), version=2) for name in ("Plain", topic)
    ]
    store = write(damaged(made).log, tmp_path / "store")
    (store / "config").mkdir()
    table = {"Batch": {"topicName": "Batch", "attributes": {"queue.type": "BatchCQ"}}}
    (store / "config" / "topics.json").write_text(json.dumps({"topicConfigTable": table}))
    if queues:
        (store / "batchconsumequeue" / topic / "0").mkdir(parents=True)
    words = ["export", "--as", "rocketmq", "--rocketmq", "5.3.3", "--set", "maxIndexNum=20",
             str(store), "--output", str(tmp_path / "made")]  # fmt: skip
    assert main(words) == 2
    said = capsys.readouterr().err.strip()
    assert why in said
    assert ("message at" in said) == (not queues)
    assert said.endswith("; --topic chooses others, and --as parquet takes all")
    assert sorted(os.listdir(tmp_path)) == ["store"]
    assert main([*words, "--tags", "no_such"]) == 0  # all of them are left out
    shutil.rmtree(tmp_path / "made")
    assert main([*words, "--topic", "Plain"]) == 0


@pytest.mark.parametrize("words", [
    ["--system-topics"],
    *(["--topic", topic] for topic in ("SCHEDULE_TOPIC_XXXX", "rmq_sys_wheel_timer",
                                       "RMQ_SYS_TRANS_OP_HALF_TOPIC", "rmq_sys_REVIVE_LOG_a")),
])  # fmt: skip
def test_what_waits_is_for_convert(words: list[str], tmp_path, capsys) -> None:
    """A new store's broker would deliver again what was delivered: positions are others."""
    store = write(damaged(messages(2)).log, tmp_path / "store")
    made = tmp_path / "made"
    told = ["export", "--as", "rocketmq", "--rocketmq", "5.3.3", str(store), "--output", str(made)]
    assert main([*told, *words]) == 2
    assert "`reput convert` makes" in capsys.readouterr().err
    assert not made.exists()


def test_what_is_redacted_is_in_no_file(tmp_path: Path) -> None:
    secret = properties(("KEYS", "k"), ("card", "4711-0815"), ("city", "Bern"))
    made = [Message(body=b"my name is Rumpelstilzchen", properties=secret),
            Message(body=b"packed", sys_flag=1)]  # fmt: skip
    store = write(damaged(made).log, tmp_path / "store")
    small: dict[str, Any] = {"rocketmq": "5.3.3", "settings": SMALL}
    run(store, tmp_path / "none", redact=["body", "property:card"], **small)
    run(store, tmp_path / "hashed", redact=["body:hash"], **small)
    rows = table(tmp_path / "none", rocketmq="5.3.3").to_pylist()
    assert [row["body"] for row in rows] == [b"", b""]
    assert [row["sysFlag"] for row in rows] == [0, 0]
    assert dict(rows[0]["properties"])["city"] == "Bern"
    raw = b"".join(p.read_bytes() for p in (tmp_path / "none").rglob("*") if p.is_file())
    assert b"Rumpel" not in raw
    assert b"4711" not in raw
    hashed = table(tmp_path / "hashed", rocketmq="5.3.3", columns="body")["body"].to_pylist()
    assert hashed == [hashlib.sha256(message.body).hexdigest().encode() for message in made]


class Kills:
    """An export of 40 messages, over an older one of 20 or none, again and again killed later."""

    def __init__(self, folder: Path, replace: bool) -> None:
        self.folder, self.out = folder, folder / "sets" / "made"
        self.store = write(damaged(messages(40)).log, folder / "store")
        (folder / "sets").mkdir()
        if replace:
            self.export(write(damaged(messages(20)).log, folder / "older"))
        self.old = 20 * replace
        shutil.copytree(folder / "sets", folder / "before")

    def export(self, store: Path) -> None:
        run(store, self.out, rocketmq="5.3.3", settings=SMALL, replace=self.out.exists())

    def kill(self, step: int) -> int | None:
        """How many messages are there after a kill before this step; None: there is no such step.

        The next run makes the whole store, and cleans.
        """
        shutil.rmtree(self.folder / "sets")
        shutil.copytree(self.folder / "before", self.folder / "sets")
        _, code = killed_at(step, lambda: self.export(self.store))
        assert code in (0, -signal.SIGKILL), code
        there = table(self.out, rocketmq="5.3.3").num_rows if self.out.exists() else 0
        assert there in (self.old, 40)
        self.export(self.store)
        assert table(self.out, rocketmq="5.3.3").num_rows == 40
        assert os.listdir(self.folder / "sets") == ["made"]
        return there if code else None


def test_one_killed_at_any_step_is_taken_for_what_it_is(tmp_path: Path) -> None:
    """A selection: some steps before publishing, all around it."""
    kills = Kills(tmp_path, replace=False)
    total, _ = killed_at(1 << 30, lambda: kills.export(kills.store))
    seen = [kills.kill(step) for step in (*range(0, total - 6, 13), *range(total - 6, total))]
    assert set(seen) >= {kills.old, 40}, (total, seen)


@pytest.mark.long
def test_one_killed_at_each_step_is_taken_for_what_it_is(tmp_path: Path) -> None:
    kills, step, seen = Kills(tmp_path, replace=True), 0, set()
    while (there := kills.kill(step)) is not None:
        seen.add(there)
        step += 1
    assert seen == {kills.old, 40}


def test_only_an_export_of_a_store_is_replaced(tmp_path: Path) -> None:
    store, out = write(damaged(messages(3)).log, tmp_path / "store"), tmp_path / "made"
    run(store, out, rocketmq="5.3.3", settings=SMALL)
    (out / "lock").touch()  # as a broker leaves it, which has been on this store
    with pytest.raises(StoreError, match="lock: is not in its manifest"):
        run(store, out, rocketmq="5.3.3", settings=SMALL, replace=True)
    (out / "lock").unlink()
    run(store, out, rocketmq="5.3.3", settings=SMALL, replace=True)
    assert table(out, rocketmq="5.3.3").num_rows == 3


def test_words_that_do_not_go_together(tmp_path: Path) -> None:
    store = write(damaged(messages(3)).log, tmp_path / "store")
    with pytest.raises(SettingError, match="--redact head: expected body, body:hash or prop"):
        run(store, tmp_path / "made", redact=["head"])
    with pytest.raises(SettingError, match="not for a store"):
        run(store, tmp_path / "made", bodies=False)
