"""`reput topics`: what each topic is and has, and when its messages came."""

import shutil

from reput.jobs.cli import main
from reput.store_format.message.message import Message
from tests.broker.writer.stores import TINY, Clock, open_writer
from tests.jobs.listing import asked, only, put_store, rows
from tests.store_format.fate.logs import T0, SmallLog


def test_without_a_list_of_topics_nobody_says_that_one_is_not_in_it(tmp_path, capsys) -> None:
    log = SmallLog()
    log.put("T")
    store = put_store(tmp_path, log)
    assert only(rows(capsys, "topics", store, "--scan"), "configured") == [(None,)]
    assert not any("not configured" in line for line in asked(capsys, "topics", store, "--scan")[1])


def test_rates_are_messages_in_equal_spans_from_the_oldest_to_the_newest(tmp_path, capsys) -> None:
    clock = Clock(T0)
    with open_writer(tmp_path / "store", clock) as writer:
        for seconds, topic in ((0, "T"), (1, "T"), (2, "U"), (8, "T"), (9, "T")):
            clock.now = T0 + 1000 * seconds
            writer.append(Message(topic, b"x", properties=b""))
    sizes = [word for name, value in TINY.items() for word in ("--set", f"{name}={value}")]
    words = ("topics", str(tmp_path / "store"), "--rates", "3", "--rocketmq", "5.3.3", *sizes)
    assert main([*words]) == 0
    out = capsys.readouterr().out.splitlines()
    shutil.rmtree(tmp_path / "store" / "consumequeue")
    assert main([*words]) == 0  # counted in the log
    assert capsys.readouterr().out.splitlines() == out
    # 9,001 ms in three spans of 3,001: up to 3.0 s, 6.0 s and the rest
    assert [line.split()[0] for line in out[1:]] == ["T", "U"]
    assert [line.split()[-4:] for line in out[1:]] == [
        ["3.001", "2", "0", "2"], ["3.001", "1", "0", "0"]]  # fmt: skip
