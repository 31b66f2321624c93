"""`reput backup` on the command line: what it says, how it ends, and that --every goes on."""

import json
from pathlib import Path
from typing import Any

import pytest

from reput.jobs import backup as module
from reput.jobs import cli
from reput.jobs.replicating import from_folder
from tests.built import Built
from tests.jobs.repository.backing import catalogue

GIVEN = [word for name, value in Built().given().items() for word in ("--set", f"{name}={value}")]


SIZE = 98  # of a record


def run(capsys: Any, folder: Path, *words: str) -> tuple[int, str, str]:
    try:
        code: Any = cli.main(["backup", f"{folder}/store", f"{folder}/repo", *GIVEN, *words])
    except SystemExit as ended:
        code = ended.code
    said = capsys.readouterr()
    return code, said.out, said.err


def test_it_says_what_is_new(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Built().put(count=9).write(tmp_path / "store")
    code, out, _ = run(capsys, tmp_path, "--dry-run")
    assert (code, "would back up: 882 bytes of the log in 9 records" in out) == (1, True), out
    code, out, _ = run(capsys, tmp_path)
    assert (code, "run 1: 882 bytes of the log in 9 records up to 882" in out) == (0, True), out
    code, out, _ = run(capsys, tmp_path, "--json")
    assert (code, json.loads(out)["run"], json.loads(out)["bytes"]) == (0, 2, 0)


def test_damage_ends_with_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Built().put(count=9).damage(f"commitlog/{0:020d}", SIZE + 4, b"\0\0\0\0").write(
        tmp_path / "store"
    )
    code, out, _ = run(capsys, tmp_path)
    assert (code, "damaged   98 to 196: no whole record" in out) == (1, True), out


@pytest.mark.parametrize("words", [["--rate", "0"], ["--rate", "fast"], ["--every", "5"],
                                   ["--every", "0m"], ["--every", "5m", "--dry-run"]])  # fmt: skip
def test_wrong_words(tmp_path: Path, capsys: pytest.CaptureFixture[str], words: list[str]) -> None:
    Built().put().write(tmp_path / "store")
    assert run(capsys, tmp_path, *words)[0] == 2
    assert not (tmp_path / "repo").exists()


def test_the_rate_is_of_the_bytes_of_the_log(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    waited: list[float] = []
    monkeypatch.setattr("time.sleep", waited.append)
    monkeypatch.setattr(from_folder.RateLimit, "wait_for", lambda self, n: n / self._rate)
    Built().put(count=9).write(tmp_path / "store")
    run(capsys, tmp_path, "--rate", "1K")
    assert sum(waited) == pytest.approx(9 * SIZE / 1024)


def test_every_goes_on_after_an_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    store = tmp_path / "store"
    Built().put(count=3).write(store)
    rounds = [
        lambda: store.rename(tmp_path / "away"),
        lambda: (tmp_path / "away").rename(store),
        lambda: Built().put(count=9).write(store),
    ]

    def sleep(seconds: float) -> None:
        assert 0 < seconds <= 300
        if not rounds:
            raise KeyboardInterrupt
        rounds.pop(0)()

    monkeypatch.setattr(module.time, "sleep", sleep)
    code, out, err = run(capsys, tmp_path, "--every", "5m")
    assert code == 130
    assert [line.partition(":")[0] for line in out.splitlines()] == ["run 1", "run 2", "run 3"]
    assert err.count("; tried again") == 1
    assert catalogue(tmp_path).run(3).end == 9 * SIZE
