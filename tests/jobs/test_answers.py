"""What commands answer is on record: help, JSON, exit codes, digests of all that they write.

A move of modules, or any change that means to change nothing, leaves these files as they are. What
means to change an answer writes them anew (`REPUT_ANSWERS=write`), and its commit shows the change.
"""

import difflib
import hashlib
import json
import os
import re
import time
from pathlib import Path
from typing import Any

import pytest

from reput.jobs.cli import _COMMANDS, main
from tests import golden_stores

ANSWERS = Path(__file__).parent / "answers"
STORES = ("small_all_4.9.7", "small_all_5.3.3", "small_expired_5.3.3", "small_crc_5.4.0",
          "small_lmq_batch_5.5.0", "small_odd_5.5.0")  # fmt: skip
QUICK = STORES[1:3]
# {store}: a copy of the store; {out}: a folder that is not there yet; {set}: a set made before.
LOOKS = ("check {store}", "verify {store}", "compare {store} {store}", "topics {store}",
         "queues {store}", "groups {store}", "stats {store}", "transactions {store}",
         "delayed {store}", "query {store} --since 0 --max 5", "query {store} --key nobody",
         "dump {store}/checkpoint", "recover {store} --dry-run", "expire {store} --dry-run",
         "catch-up {store} --dry-run", "check {out}", "query {store} --position 1")  # fmt: skip
WRITES = (
    "rebuild {store} --output {set}", "rebuild {store} --output {set}",
    "verify {store} --against {set}", "install {set} {store} --yes", "install --undo {store} --yes",
    "export {store} --as jsonl --output {out}/jsonl",
    "export {store} --as parquet --output {out}/parquet",
    "export {store} --as rocketmq --output {out}/store",
    "convert {store} --to-set mappedFileSizeCommitLog=131072 --output {out}/converted",
    "replicate {store} {out}/replica --yes", "repair {store} --output {out}/repaired",
    "append {out}/appended --from {out}/jsonl --rocketmq 5.3.3",
    "recover {store} --yes", "report {store} --output {out}/page.html")  # fmt: skip
_UNSTABLE = {  # clocks, machines, and what is drawn by chance
    "seconds", "stages", "profile", "settings", "made", "version", "reput", "bytes_per_second",
    "occasion",
}  # fmt: skip
# They hold versions or the time of now.
_NOT_COMPARED = re.compile(
    r"\.parquet$|\.html$|lock$|manifest\.json$|replica\.json$|config/timercheck$|timerlog/\d+$"
    r"|^(appended|store)/(checkpoint|commitlog|index|config/topics)"
)


def normalised(value: Any, folder: str) -> Any:
    if isinstance(value, dict):
        return {key: "..." if key in _UNSTABLE else normalised(each, folder)
                for key, each in value.items()}  # fmt: skip
    if isinstance(value, list):
        return [normalised(each, folder) for each in value]
    if isinstance(value, str):
        value = value.replace(folder, "{tmp}")
        value = re.sub(r"reput-[0-9a-f]{32}", "reput-{id}", value)
        value = re.sub(r"^it is \d\dh \(deleteWhen=\d\d\)$", "", value)  # at that hour alone
        value = re.sub(r"\b\d+(?:\.\d+)? (?:ms|s|KB/s|MB/s|GB/s)\b", "...", value)
        return re.sub(r"20\d\d-\d\d-\d\d[T ]\d\d:\d\d(:\d\d)?(\.\d+)?", "{time}", value)
    return value


def answer(words: str, capsys: pytest.CaptureFixture[str], tmp: Path) -> dict[str, Any]:
    try:
        code = main([*words.split(), "--json"])
    except SystemExit as ended:
        code = int(ended.code or 0)
    out, err = capsys.readouterr()
    said = [json.loads(line) for line in out.splitlines() if line.startswith(("{", "["))]
    if words.startswith("report"):  # the page holds times and paths
        said = [{key: each[key] for key in each if key != "bytes"} for each in said]
    if "--as rocketmq" in words:  # appended anew, at the time of now
        said = [{key: each[key] for key in each if key != "files"} for each in said]
    lines = [line for line in err.splitlines() if line.startswith("reput: ")]
    return normalised({"words": words, "exit": code, "json": said, "stderr": lines}, str(tmp))


def digests(folder: Path) -> dict[str, str]:
    """Index files are called by their number: a broker names them by the time of now."""
    found, index = {}, 0
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        if path.is_file() and not _NOT_COMPARED.search(name):
            if path.parent.name == "index":
                index += 1
                name = str(path.parent.relative_to(folder) / f"file {index}")
            found[name] = hashlib.sha256(path.read_bytes()).hexdigest()[:16]
    return found


def compare(name: str, made: str) -> None:
    path = ANSWERS / name
    if os.environ.get("REPUT_ANSWERS") == "write":
        path.write_text(made, "utf-8")
    known = path.read_text("utf-8").splitlines(keepends=True)
    lines = [*difflib.unified_diff(known, made.splitlines(keepends=True), "on record", "now", n=1)]
    assert not lines, "".join(lines[:60])


def test_help_of_every_command(capsys, monkeypatch) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    texts = []
    for command in ("", *_COMMANDS):
        words = [command, "--help"] if command else ["--help"]
        with pytest.raises(SystemExit) as ended:
            main(words)
        assert ended.value.code == 0
        texts.append(f"$ reput {' '.join(words)}\n{capsys.readouterr().out}\n")
    compare("help.txt", "".join(texts))


@pytest.mark.usefixtures("commands_in_process")
@pytest.mark.parametrize(
    "name",
    [each if each in QUICK else pytest.param(each, marks=pytest.mark.long) for each in STORES],
)
def test_answers_exit_codes_and_bytes(name: str, tmp_path, capsys, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TZ", "UTC")  # in which index files are named
    time.tzset()
    golden = golden_stores.unpack(name)
    store = golden_stores.as_left(name, tmp_path)
    sizes = " ".join(f"--set {key}={value}" for key, value in sorted(golden.settings.items()))
    answers, places = [], {"store": "store", "out": "out", "set": "set"}
    (tmp_path / "out").mkdir()
    for words in (*LOOKS, *WRITES):
        command = words.format(**places)
        if not command.startswith(("compare", "install", "dump", "append")):
            command += f" --rocketmq {golden.version} {sizes}"
        answers.append(answer(command, capsys, tmp_path))
    written = {each: digests(tmp_path / each) for each in ("store", "out", "set")}
    assert store.exists()
    rows = [json.dumps(each, sort_keys=True) for each in answers]
    rows += [f"{each} {path} {digest}" for each, files in written.items()
             for path, digest in files.items()]  # fmt: skip
    compare(f"{name}.txt", "\n".join(rows) + "\n")
