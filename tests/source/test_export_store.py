"""A store of chosen messages: all that they have, new positions, nothing that is redacted."""

import hashlib
import os
from pathlib import Path
from typing import Any

import pytest

from reput.jobs.engine import export_store
from reput.jobs.engine.outputs import OutputInUse, OverlapsInput
from reput.jobs.export import export
from reput.store_format.release.settings import SettingError
from tests import golden_stores
from tests.damaged import damaged, messages
from tests.logs.encoder import Message, properties
from tests.source.reading import table, write
from tests.source.test_export import SAME, topics


def run(store: Path, to: Path, **options: Any) -> Any:
    return export(None, str(store), str(to), format="rocketmq", **options)


def test_a_store_of_some_topics_has_their_messages(tmp_path: Path) -> None:
    store = golden_stores.unpack("small_odd_5.5.0").input
    chosen = topics(store)[:2]
    done = run(store, tmp_path / "made", rocketmq="5.5.0", topics=chosen)
    wanted = table(store, rocketmq="5.5.0", subscribe=",".join(chosen))
    made = table(tmp_path / "made", rocketmq="5.5.0")
    assert made.num_rows == wanted.num_rows == done.messages > 0
    for name in SAME:
        assert made[name].to_pylist() == wanted[name].to_pylist(), name
    assert sorted(os.listdir(tmp_path)) == ["made"]
    assert {"commitlog", "consumequeue", "config"} <= set(os.listdir(tmp_path / "made"))


def test_what_is_redacted_is_in_no_file(tmp_path: Path) -> None:
    secret = properties(("KEYS", "k"), ("card", "4711-0815"), ("city", "Bern"))
    made = [Message(body=b"my name is Rumpelstilzchen", properties=secret),
            Message(body=b"packed", sys_flag=1)]  # fmt: skip
    store = write(damaged(made).log, tmp_path / "store")
    run(store, tmp_path / "none", rocketmq="5.3.3", redact=["body", "property:card"])
    run(store, tmp_path / "hashed", rocketmq="5.3.3", redact=["body:hash"])
    rows = table(tmp_path / "none", rocketmq="5.3.3").to_pylist()
    assert [row["body"] for row in rows] == [b"", b""]
    assert [row["sysFlag"] for row in rows] == [0, 0]
    assert dict(rows[0]["properties"])["city"] == "Bern"
    raw = b"".join(p.read_bytes() for p in (tmp_path / "none").rglob("*") if p.is_file())
    assert b"Rumpel" not in raw
    assert b"4711" not in raw
    hashed = table(tmp_path / "hashed", rocketmq="5.3.3", columns="body")["body"].to_pylist()
    assert hashed == [hashlib.sha256(message.body).hexdigest().encode() for message in made]


def test_a_killed_one_leaves_nothing_and_the_next_one_cleans(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = write(damaged(messages(60)).log, tmp_path / "store")
    put = export_store.append_exported

    def failing(writer: Any, where: str, row: dict[str, Any]) -> None:
        put(writer, where, row)
        if row["queueOffset"] == 5:
            raise OSError("no space")

    with monkeypatch.context() as patch:
        patch.setattr(export_store, "append_exported", failing)
        with pytest.raises(OSError, match="no space"):
            run(store, tmp_path / "made", rocketmq="5.3.3")
    assert os.listdir(tmp_path) == ["store"]
    run(store, tmp_path / "made", rocketmq="5.3.3")
    assert table(tmp_path / "made", rocketmq="5.3.3").num_rows == 60
    with pytest.raises(OutputInUse):
        run(store, tmp_path / "made", rocketmq="5.3.3")
    with pytest.raises(OverlapsInput):
        run(store, store / "config", rocketmq="5.3.3")


def test_words_that_do_not_go_together(tmp_path: Path) -> None:
    store = write(damaged(messages(3)).log, tmp_path / "store")
    with pytest.raises(SettingError, match="--redact head: body, body:hash or property:NAME"):
        run(store, tmp_path / "made", redact=["head"])
    with pytest.raises(SettingError, match="not for a store"):
        run(store, tmp_path / "made", bodies=False)
    with pytest.raises(SettingError, match="only with --format rocketmq"):
        export(None, str(store), str(tmp_path / "made"), format="delta", redact=["body"])
