"""`reput compare` as a command: its exit code, and where its lines may go."""

import json

from reput.jobs import cli
from tests import built
from tests.jobs.comparing.pairs import COMMON, message, store

OURS = [*COMMON[:41], *(message(n, sender="B", topic="Pay") for n in range(41, 50))]


def test_the_command_answers_by_its_exit_code_and_writes_the_messages(tmp_path, capsys) -> None:
    master, slave, again = (
        built.write(tmp_path, store(name, messages)) / name
        for name, messages in (("a", OURS), ("b", COMMON[:41]), ("c", OURS))
    )
    size = ("--set", "mappedFileSizeCommitLog=4096", "--rocketmq", "5.3.3")
    assert cli.main(["compare", str(master), str(again), "--json", *size]) == 0
    assert json.loads(capsys.readouterr().out)["same"] is True
    lines = tmp_path / "only.jsonl"
    words = ["compare", str(master), str(slave), "--messages", str(lines), *size]
    assert cli.main(words) == 1
    assert capsys.readouterr().out.startswith(f"compared {master} (master) with {slave} (slave): ")
    rows = [json.loads(line) for line in lines.read_text().splitlines()]
    assert [row["queueOffset"] for row in rows] == list(range(41, 50))
    for store_read in (master, slave):
        words[4] = str(store_read / "only.jsonl")
        assert cli.main(words) == 2
        assert "which is read: nothing is written there" in capsys.readouterr().err
