"""`reput metrics`: what Prometheus reads, over HTTP and in a file."""

import json
import math
import os
import re
import signal
import socket
import stat
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from reput.jobs.cli import main
from reput.jobs.metrics import SERIES, Looked
from tests.built import T0, Built
from tests.jobs.listing import put_store
from tests.processes import until
from tests.store_format.fate.logs import SmallLog

pytest.importorskip("prometheus_client")
ROOT = Path(__file__).parents[2]
Sums = dict[tuple[str, ...], float]
# rocketmq-exporter's, of which a sum over queueId is what it shows
DIFF, CONSUMED = "rocketmq_group_diff", "rocketmq_consumer_offset"


def parsed(text: str) -> dict[str, Sums]:
    """By series, by its labels' values in their names' order without cluster and broker."""
    from prometheus_client.parser import text_string_to_metric_families

    found: dict[str, Sums] = {}
    for family in text_string_to_metric_families(text):
        for each in family.samples:
            assert (each.labels.pop("cluster"), each.labels.pop("broker")) == ("C", "b")
            labels = tuple(value for _, value in sorted(each.labels.items()))
            found.setdefault(each.name, {})[labels] = each.value
    return found


def built() -> Built:
    made = Built().put("T", count=20).put("T", 1, count=5).put("%RETRY%g", count=3)
    made.put("%DLQ%g", count=2).put("rmq_sys_wheel_timer").derive()
    offsets = {"T@g": {"0": 4, "1": 5}, "%RETRY%g@g": {"0": 1}, "T@all@broadcast": {"0": 18}}
    return made.file("config/consumerOffset.json", json.dumps({"offsetTable": offsets}))


def words(made: Built, store: Path, *more: str) -> list[str]:
    given = made.given() | {"brokerName": "b", "brokerClusterName": "C"}
    settings = [word for pair in given.items() for word in ("--set", "=".join(pair))]
    return ["metrics", str(store), *settings, *more]


def in_file(made: Built, tmp_path: Path, *more: str) -> dict[str, Sums]:
    file = tmp_path / "reput.prom"
    assert main(words(made, made.write(tmp_path / "store"), "--textfile", str(file), *more)) == 0
    return parsed(file.read_text("utf-8"))


@contextmanager
def served(made: Built, tmp_path: Path, *more: str) -> Iterator[tuple[int, Any]]:
    """(its port, its process)"""
    asked = words(made, made.write(tmp_path / "store"), "--listen", "127.0.0.1:0", *more)
    with subprocess.Popen(
        [sys.executable, "-m", "reput", *asked], stdout=subprocess.PIPE, text=True, cwd=ROOT
    ) as process:
        try:
            ready = process.stdout.readline()
            yield int(ready.rpartition(":")[2]), process
        finally:
            process.kill()


def scraped(port: int, path: str = "/metrics", **more: Any) -> str:
    asked = urllib.request.Request(f"http://127.0.0.1:{port}{path}", **more)
    with urllib.request.urlopen(asked, timeout=60) as answer:
        assert answer.headers["Content-Type"].startswith("text/plain; version=0.0.4")
        return answer.read().decode()


def once(port: int, true: Callable[[Any], bool]) -> Any:
    """A scrape's values, as soon as they are so."""
    assert until(lambda: true(parsed(scraped(port))))
    return parsed(scraped(port))


def own_memory(process: Any) -> int:
    """KiB, without pages of files."""
    lines = Path(f"/proc/{process.pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("RssAnon"))


def test_a_store_in_numbers(tmp_path: Path) -> None:
    now = time.time() * 1000
    found = in_file(built(), tmp_path)
    assert found["rocketmq_producer_offset"] == {
        ("0", "T"): 20, ("1", "T"): 5, ("0", "rmq_sys_wheel_timer"): 1}  # fmt: skip
    assert found["rocketmq_topic_retry_offset"] == {("0", "%RETRY%g"): 3}
    assert found["rocketmq_topic_dlq_offset"] == {("g", "0"): 2}
    assert found["reput_dead_letters"] == {("g",): 2}
    assert found[DIFF] == {("g", "1", "0", "T"): 16, ("g", "1", "1", "T"): 0}
    assert found["rocketmq_group_retrydiff"] == {("g", "1", "0", "%RETRY%g"): 2}
    assert found[CONSUMED] == {
        ("g", "0", "T"): 4, ("g", "1", "T"): 5, ("g", "0", "%RETRY%g"): 1}  # fmt: skip
    assert found["reput_group_lag_seconds"] == {
        ("g", "0", "T"): 30 - 4, ("g", "1", "T"): 0, ("g", "0", "%RETRY%g"): 30 - 26}  # fmt: skip
    latency = found["rocketmq_group_get_latency_by_storetime"]
    assert latency["g", "0", "T"] == pytest.approx(now - T0 - 4000, abs=60_000)
    assert latency["g", "1", "T"] == 0
    # those of a broadcast have no part in sums over groups
    assert found["reput_broadcast_diff"] == {("all", "0", "T"): 2}
    assert found["reput_broadcast_lag_seconds"] == {("all", "0", "T"): 30 - 18}
    assert found["reput_topic_messages"]["T",] == found["reput_put_messages_total"]["T",] == 25
    log = sum(found["reput_topic_bytes"].values())
    first, last = (found[f"rocketmq_brokeruntime_commitlog_{n}offset"][()] for n in ("min", "max"))
    assert first == 0
    assert log <= last < log + 2 * 2048  # BLANKs end segments
    assert found["reput_newest_timestamp_seconds"][()] == (T0 + 30_000) / 1000
    assert found["reput_disk_left_hours"][()] == pytest.approx(
        found["reput_disk_free_bytes"][()] / last * 30 / 3600
    )
    assert found["reput_damaged_places"][()] == 0
    assert set(found["reput_left_out"].values()) == {0}


def test_rates_are_over_the_last_minute(tmp_path: Path, monkeypatch) -> None:
    clock, made = [1000.0], Built().put("T", count=3)
    monkeypatch.setattr(
        "reput.jobs.metrics.time", SimpleNamespace(monotonic=lambda: clock[0], time=time.time)
    )
    looked = Looked(str(made.write(tmp_path)), "5.3.3", made.given(), 10)
    found = []
    with closing(looked.watch):
        for seconds, count in ((0, 0), (20, 4), (20, 4), (20, 4), (60, 0), (0.5, 0)):
            clock[0] += seconds
            made.put("T", count=count).write(tmp_path)
            looked.look()
            rates = [each for each in looked._samples() if each[0] == "rocketmq_producer_tps"]
            found.append(rates[0][2] if rates else None)
        for _ in range(1000):
            clock[0] += 0.1
            looked.look()
        assert len(looked._puts) <= 14
        for each in (tmp_path / "commitlog").iterdir():
            each.unlink()
        Built().put("T").write(tmp_path)  # another store, as of a restore
        clock[0] += 1
        looked.look()
        shown = {name: value for name, labels, value in looked._samples() if labels in ((), ("T",))}
        assert shown["rocketmq_producer_tps"] == shown["rocketmq_producer_message_size"] == 0
        assert shown["reput_disk_left_hours"] == math.inf  # one message shows no growth
    assert found == [None, 4 / 20, 8 / 40, 12 / 60, 0, 0]


def test_what_waits(tmp_path: Path) -> None:
    log = SmallLog()
    log.half("a")
    log.delay("d", 5)
    log.timer("t", log.now + 9_000_000)
    log.now += 70_000
    log.half("b")
    store, file = put_store(tmp_path, log), tmp_path / "reput.prom"
    asked = words(Built({"mappedFileSizeCommitLog": 1 << 16}), Path(store))
    assert main([*asked, "--textfile", str(file)]) == 0
    waiting = parsed(file.read_text())["reput_waiting_messages"]
    assert {key for key, value in waiting.items() if value == 1} == {
        ("half", "true"), ("half", "false"), ("level", "true"), ("timer", "false")}  # fmt: skip


def test_most_queues_bounds_what_is_shown_by_what_is_behind(tmp_path: Path) -> None:
    found = in_file(built(), tmp_path, "--most-queues", "2")
    assert found["rocketmq_producer_offset"] == {("0", "T"): 20, ("1", "T"): 5}
    assert found[DIFF] == {("g", "1", "0", "T"): 16}
    assert found["reput_left_out"] == {
        ("queues",): 3, ("topics",): 2, ("group queues",): 2, ("names",): 0}  # fmt: skip


def test_hostile_names_are_labels_and_no_lines(tmp_path: Path) -> None:
    names = ['a"} 1\nreput_x 2', "\\", "\u2028\x1b[2J", "\x00", "\x01", "\ud800", "x" * 300, "é😀"]
    made = Built().put("T", count=2).derive()
    offsets = {f"T@{name}": {"0": 1} for name in names}
    made.file("config/consumerOffset.json", json.dumps({"offsetTable": offsets}))
    found = in_file(made, tmp_path)
    groups = {labels[0] for labels in found[DIFF]}
    assert groups == {'a"} 1\ufffdreput_x 2', "\\", "\ufffd\ufffd[2J", "\ufffd", "?", "x" * 255,
                      "é😀"}  # fmt: skip
    assert found["reput_left_out"]["names",] > 0  # \x00 and \x01 would be one
    assert "reput_x" not in found


def test_the_file_is_replaced_whole_and_nothing_else_is(tmp_path: Path, capsys: Any) -> None:
    made, file = built(), tmp_path / "reput.prom"
    old = os.umask(0o077)
    try:
        for _ in range(2):
            in_file(made, tmp_path)
    finally:
        os.umask(old)
    assert stat.S_IMODE(file.stat().st_mode) == 0o644
    assert {each.name for each in tmp_path.iterdir()} == {"store", "reput.prom"}
    file.write_text("# HELP node_load1 another's\n")
    asked = words(made, tmp_path / "store")
    for path in (file, tmp_path / "x.txt", tmp_path / "store/config/x.prom",
                 tmp_path / "no/x.prom"):  # fmt: skip
        assert main([*asked, "--textfile", str(path)]) == 2
    assert file.read_text().startswith("# HELP node_load1")
    capsys.readouterr()


def test_without_the_package_a_sentence_says_so(tmp_path: Path, monkeypatch, capsys) -> None:
    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    assert main(["metrics", str(tmp_path)]) == 2
    assert "pip install 'reput[metrics]'" in capsys.readouterr().err


@pytest.mark.real
def test_scrapes_follow_the_store_and_cost_nothing(tmp_path: Path) -> None:
    made = built()
    with served(made, tmp_path, "--every", "100ms") as (port, process):
        assert parsed(scraped(port))[DIFF]["g", "1", "0", "T"] == 16
        made.put("T", count=7).derive().write(tmp_path / "store")
        found = once(port, lambda now: now[DIFF]["g", "1", "0", "T"] == 23)
        once(port, lambda now: now["reput_bytes_read"][()] <= 100)
        assert found["reput_put_messages_total"]["T",] == 32
        assert found["rocketmq_producer_tps"]["T",] >= 0
        before, memory = parsed(scraped(port))["reput_bytes_read_total"][()], list[int]()
        for number in range(1500):
            text = scraped(port)
            memory += [] if number % 500 else [own_memory(process)]
        assert parsed(text)["reput_bytes_read_total"][()] - before < 1000
        assert own_memory(process) - memory[0] < 400
        for each in (tmp_path / "store" / "commitlog").iterdir():
            each.unlink()
        found = once(port, lambda now: now["reput_failures_total"][()] > 0)
        assert found[DIFF]["g", "1", "0", "T"] == 23
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0


@pytest.mark.real
def test_slow_and_hostile_clients_hold_nobody(tmp_path: Path) -> None:
    with served(built(), tmp_path, "--every", "1h") as (port, process), ExitStack() as stack:
        for path, code in (("/", 404), ("/metricsx", 404), ("/metrics/..", 404)):
            with pytest.raises(urllib.error.HTTPError) as refused:
                scraped(port, path)
            assert refused.value.code == code
        with pytest.raises(urllib.error.HTTPError) as refused:
            scraped(port, method="POST", data=b"x")
        assert refused.value.code == 405
        assert scraped(port, method="HEAD") == ""
        whole = scraped(port, "/metrics?name[]=x")
        for sent in (b"", b"G", b"GET /metrics HTTP/1.1\r\n", b"\0" * 70_000, b"\r\n\r\n") * 60:
            client = stack.enter_context(socket.create_connection(("127.0.0.1", port)))
            with suppress(OSError):  # it made room for others
                client.sendall(sent)
        for _ in range(1000):  # none of which reads a file
            assert scraped(port) == whole
        assert len(os.listdir(f"/proc/{process.pid}/fd")) < 120


def test_the_board_and_the_page_name_only_and_all_series() -> None:
    board = json.loads((ROOT / "docs" / "grafana.json").read_text())
    asked = [target["expr"] for panel in board["panels"] for target in panel["targets"]]
    named = {name for each in asked for name in re.findall(r"\b(?:rocketmq|reput)_\w+", each)}
    assert named <= set(SERIES)
    assert len(named) >= 12
    assert all("cluster=" in each and "broker=" in each for each in asked)
    page = (ROOT / "docs" / "metrics.md").read_text()
    assert {name for name in SERIES if f"`{name}`" not in page} == set()
