"""`reput send` as a command: asks first, counts, says what was sent, and never writes to SOURCE."""

import json
from pathlib import Path
from typing import Any

import pytest

from reput.jobs.cli import main
from reput.jobs.send import Sent
from reput.store_format.files.catalogue import MARKER
from tests.built import Built
from tests.jobs.sending.fake_cluster import STORE, FakeCluster, cluster
from tests.logs.encoder import properties
from tests.rocketmq.live import contents

DEAD = properties(("RETRY_TOPIC", "Orders"), ("UNIQ_KEY", "u"))
ILLEGAL = 13


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    built = Built().put("Orders", 0, 3).put("%DLQ%g", 0, 2, properties=DEAD).put("%DLQ%g", 0, 1)
    return built.derive().write(tmp_path / "store")


def run(capsys: Any, there: FakeCluster, store: Path, *words: str) -> tuple[int, str, str]:
    code = main(["send", str(store), "--to", there.namesrv, *words])
    out, errors = capsys.readouterr()
    return code, out, errors


def test_dead_letters_are_counted_asked_about_and_sent(store: Path, capsys: Any) -> None:
    before = contents(store)
    dead = ("--topic", "%DLQ%g", "--to-topic", "ORIGIN")
    with cluster() as there:
        code, out, _ = run(capsys, there, store, *dead, "--dry-run")
        assert code == 1
        assert out.splitlines()[0] == f"would send 2 messages of {store} to {there.namesrv}"
        assert "  failed    1 message cannot be sent\n  refused   1: has neither DLQ_ORIGIN" in out
        assert "  topic     Orders: 2" in out
        code, out, errors = run(capsys, there, store, *dead)
        assert (code, out) == (2, "")
        assert "would send 2 messages (2 to Orders) by the name server" in errors
        assert not list(store.parent.glob("reput-send-*"))
        code, out, errors = run(capsys, there, store, *dead, "--yes")
        assert code == 1
        assert f"sent 2 messages of {store}" in out
        assert "%DLQ%g/0 at 2: has neither DLQ_ORIGIN_TOPIC nor RETRY_TOPIC" in errors
        assert there.bodies == [b"body 3", b"body 4"]
        (checkpoint,) = store.parent.glob("reput-send-*.jsonl")
        assert str(checkpoint) in out
        assert run(capsys, there, store, *dead, "--yes")[:2][1].startswith("sent 0 messages")
        assert len(there.bodies) == 2
    assert contents(store) == before


def test_json_is_a_line_a_message_and_one_for_all(store: Path, capsys: Any) -> None:
    with cluster() as there:
        there.does = lambda broker, asked: ILLEGAL if asked.body == b"body 1" else STORE
        code, out, _ = run(capsys, there, store, "--json", "--yes", "--batch", "1")
        *rows, whole = map(json.loads, out.splitlines())
    assert code == 1
    assert [(row["queueOffset"], row["status"], row["toQueue"]) for row in rows] == [
        (0, "sent", 0), (1, "failed", None), (2, "sent", 0)]  # fmt: skip
    assert rows[0]["to"] == "Orders"
    assert (whole["sent"], whole["failed"], whole["twice"]) == (2, 1, [])
    assert "body 1" not in out


def test_what_is_not_on_each_disk_that_a_broker_is_set_to_is_said(store: Path, capsys: Any) -> None:
    with cluster() as there:
        stored = there.brokers["a"]._stored
        there.brokers["a"]._stored = (  # type: ignore[method-assign]
            lambda asked: stored(asked)._replace(code=11)  # type: ignore[union-attr]
        )
        code, out, errors = run(capsys, there, store, "--topic", "Orders", "--yes")
    assert (code, errors.count("SLAVE_NOT_AVAILABLE"), "sent 3" in out) == (0, 3, True)


def test_a_relative_time_means_what_it_meant_in_the_first_run(store: Path, capsys: Any) -> None:
    """Else a run that goes on would leave out what the first one had still to send."""
    with cluster() as there:
        for seconds in (900_000_000, 0):
            since = f"{seconds} s ago" if seconds else "1d ago"
            code, out, _ = run(capsys, there, store, "--since", since, "--yes")
            assert (code, out.partition(" messages")[0]) == (0, f"sent {3 if seconds else 0}")
        assert len(list(store.parent.glob("reput-send-*.jsonl"))) == 2
        (store.parent / "other").symlink_to(store)  # another name is another send


@pytest.mark.parametrize(("words", "said"), [
    (["--to", "nowhere"], "is not an address"), (["--rate", "0"], "reput help send lists"),
    (["--topic", "%DLQ%g"], "--to-topic is missing"), (["--batch", "0"], "reput help send lists"),
    (["--tls-ca", "nothing"], "--tls-ca nothing: No such file"),
    (["--access-keys", "nothing"], "nothing: No such file"), (["--checkpoint", "store/x"], "store"),
    (["--checkpoint", "."], "which is read: nothing is written there"),
    (["--checkpoint", "no/x"], "No such file or directory")])  # fmt: skip
def test_wrong_words_are_one_line(words: list[str], said: str, store: Path, capsys) -> None:
    before = contents(store)
    with cluster() as there:
        try:
            code = main(["send", str(store), "--to", there.namesrv, "--yes", *words])
        except SystemExit as error:
            code = error.code  # type: ignore[assignment]
        assert there.bodies == []
    out, errors = capsys.readouterr()
    assert (code in (2, 3), out) == (True, "")
    assert said in errors.splitlines()[-1]
    assert contents(store) == before


def test_a_source_that_is_none_and_what_may_be_there_twice(store: Path, capsys: Any) -> None:
    with cluster() as there:
        for name in ("nothing", "nothing.jsonl", str(store / "commitlog")):
            code, out, errors = run(capsys, there, Path(name), "--yes")
            assert (code, out, errors.count("\n")) == (2, "", 1)
            assert "--from" not in errors
        (store.parent / "repo").mkdir()
        (store.parent / "repo" / MARKER).touch()
        code, _, errors = run(capsys, there, store.parent / "repo", "--yes")
        assert (code, "is a backup repository: `reput export` writes" in errors) == (2, True)
    text = Sent("s", "n", "c", 2, 1, 0, {"T": 2}, twice=[1234], lacking=True).text()
    assert "the message at 1,234 may be there twice" in text
    assert "1 by earlier runs" in text
    assert "the source is damaged" in text


def test_a_name_server_without_a_route_fails_each_message(store: Path, capsys: Any) -> None:
    with cluster() as there:
        there.topics = set()
        code, out, _ = run(capsys, there, store, "--dry-run")
        assert (code, "  no route  Orders" in out) == (1, True)
        code, out, errors = run(capsys, there, store, "--yes")
        assert code == 1
        assert (
            errors.count("the name server knows no broker that takes messages of this topic") == 3
        )
        there.topics = None
        assert run(capsys, there, store, "--yes")[0] == 0
        assert len(there.bodies) == 3


@pytest.mark.parametrize("words", [(), ("--yes",), ("--dry-run",)])
def test_a_name_server_that_is_not_there_is_said_at_once(words, store, capsys) -> None:
    for to in ("127.0.0.1:1", "127.0.0.1:1;no-such-host.invalid:9876"):
        assert main(["send", str(store), "--to", to, *words]) == 3
        errors = capsys.readouterr().err
        assert "reput: error: name server " in errors
        assert "cannot be reached" in errors
    assert not list(store.parent.glob("reput-send-*"))
