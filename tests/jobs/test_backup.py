"""`reput backup` on the command line: what it says, how it ends, and that --every goes on."""

import json
import re
import shlex
import shutil
import stat
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from reput.jobs import backup as module
from reput.jobs import cli
from reput.jobs.replicating import source
from reput.jobs.repository import log_pieces
from tests.built import Built
from tests.jobs.repository.backing import catalogue
from tests.local_time import with_sleep

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


def test_the_rate_is_of_the_bytes_of_the_log(tmp_path: Path, capsys, monkeypatch) -> None:
    waited: list[float] = []
    monkeypatch.setattr(log_pieces, "time", with_sleep(waited.append))
    monkeypatch.setattr(source.RateLimit, "wait_for", lambda self, n: n / self._rate)
    Built().put(count=9).write(tmp_path / "store")
    run(capsys, tmp_path, "--rate", "1K")
    assert sum(waited) == pytest.approx(9 * SIZE / 1024)


def test_every_goes_on_after_an_error(tmp_path: Path, capsys, monkeypatch) -> None:
    store = tmp_path / "store"
    Built().put(count=3).write(store)
    file, away = tmp_path / "metrics/reput.prom", tmp_path / "away"
    file.parent.mkdir()
    away.mkdir()
    both = store, file.parent
    rounds: list[Any] = [lambda: [each.rename(away / each.name) for each in both],
                         lambda: [(away / each.name).rename(each) for each in both],
                         lambda: Built().put(count=9).write(store)]  # fmt: skip

    def sleep(seconds: float) -> None:
        assert 0 < seconds <= 300
        if not rounds:
            raise KeyboardInterrupt
        rounds.pop(0)()

    monkeypatch.setattr(module, "time", with_sleep(sleep))
    code, out, err = run(capsys, tmp_path, "--every", "5m", "--textfile", str(file))
    assert code == 130
    assert [line.partition(":")[0] for line in out.splitlines()] == ["run 1", "run 2", "run 3"]
    assert err.count("; tried again") == 1
    assert catalogue(tmp_path).run(3).end == 9 * SIZE
    told = re.findall(r"^(reput_backup_\w+) (\d+)$", file.read_text(), re.M)
    found = {name: int(value) for name, value in told}
    stamp = found.pop("reput_backup_timestamp_seconds")
    assert -1 <= time.time() - stamp < 60  # it is rounded
    assert found == {
        "reput_backup_failures": 1, "reput_backup_branches": 0, "reput_backup_good": 1,
        "reput_backup_log_end": 9 * SIZE, "reput_backup_new_bytes": 6 * SIZE,
        "reput_backup_pieces": 1, "reput_backup_stored_bytes": found["reput_backup_stored_bytes"],
    }  # fmt: skip
    assert stat.S_IMODE(file.stat().st_mode) == 0o644
    assert run(capsys, tmp_path, "--textfile", f"{tmp_path}/reput.txt")[0] == 2


# --- the operators' page: its units and its job run as they stand ---------------------------------
PAGE = (Path(__file__).parents[2] / "docs/howto/backup.md").read_text("utf-8")


def command_of(line: str) -> Any:
    words = shlex.split(line)
    assert words[0].rpartition("/")[2] == "reput"
    return cli._parser(False).parse_args(words[1:])


def test_the_units_are_what_systemd_takes(tmp_path: Path) -> None:
    units = dict(
        re.findall(r'^```ini title="/etc/systemd/system/([^"]*)"\n(.*?)^```', PAGE, re.M | re.S)
    )
    assert sorted(units) == ["reput-backup.service", "reput-backup.timer"]
    found = re.search(r"^ExecStart=(.*)$", units["reput-backup.service"], re.M)
    assert found is not None
    assert command_of(found[1]).repository == "/backup/rocketmq"
    tool = shutil.which("systemd-analyze")
    if tool is None:
        pytest.skip("no systemd on this machine")
    for name, text in units.items():
        here = text.replace(found[1], "/bin/true").replace("rocketmq", "root")
        (tmp_path / name).write_text(here)
    done = subprocess.run([tool, "verify", "--man=no", *(str(tmp_path / name) for name in units)],
                          capture_output=True, text=True, check=False)  # fmt: skip
    assert not [line for line in done.stderr.splitlines() if "reput-backup" in line], done.stderr


def test_the_job_mounts_the_store_and_backs_it_up() -> None:
    yaml = pytest.importorskip("yaml")
    (text,) = re.findall(r"^```yaml\n(.*?)^```", PAGE, re.M | re.S)
    job = yaml.safe_load(text)
    assert (job["apiVersion"], job["kind"]) == ("batch/v1", "CronJob")
    assert job["spec"]["concurrencyPolicy"] == "Forbid"
    pod = job["spec"]["jobTemplate"]["spec"]["template"]["spec"]
    (container,), (volume,) = pod["containers"], pod["volumes"]
    assert container["volumeMounts"][0]["name"] == volume["name"]
    path = container["volumeMounts"][0]["mountPath"]
    assert command_of(shlex.join(container["command"])).store == path
    assert pod["restartPolicy"] in ("Never", "OnFailure")
