"""Commands that change a store, on a disk that is full or read-only, and what a second run makes.

In a mount namespace of our own: a tmpfs with room for some pages more in each round.
"""

import json
import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from contextlib import suppress
from pathlib import Path

import pytest

from reput.store_format.files.disk import DiskFiles
from tests.attack.works import WORKS, make, run
from tests.jobs.sources.reading import table
from tests.trees import unlocked

ROOT = Path(__file__).parents[2]


def found(top: Path) -> dict[str, list[tuple[str, int, bytes]]]:
    """The messages of each store that is there."""
    stores = {at.parent for at in top.glob("*/commitlog") if any(at.iterdir())}
    names = ("topic", "queueId", "body")
    return {
        store.name: sorted(
            (row["topic"], row["queueId"], row["body"])
            for row in table(store, rocketmq="5.3.3", columns=",".join(names)).to_pylist()
            if "SYS" not in row["topic"]
        )
        for store in stores
    }


def fresh(stores: Path, top: Path) -> None:
    for path in top.iterdir():
        path.unlink() if path.is_file() else shutil.rmtree(path)
    for name in ("store", "behind", "repo"):
        shutil.copytree(stores / name, top / name)


def filled(top: Path) -> Path:
    """The file that takes all room that the disk has."""
    ballast = top / "ballast"
    with ballast.open("wb", buffering=0) as file, suppress(OSError):
        while True:
            file.write(bytes(4096))
    return ballast


def all_on_a_full_disk(stores: Path, top: Path) -> None:
    """Run in a namespace of its own; prints how each command ended, and what it said."""
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "none", str(top)], check=True)
    ended = {}
    for name, words in WORKS.items():
        fresh(stores, top)
        filled(top)
        ended[name] = run(words, stores, top)
    print(json.dumps(ended))


def on_small_disk(name: str, stores: Path, top: Path) -> None:
    """Run in a namespace of its own; prints how the rounds ended."""
    words, ended = WORKS[name], []
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "none", str(top)], check=True)
    fresh(stores, top)
    assert run(words, stores, top)[0] == 0
    wanted, state = found(top), unlocked(top)
    for room in (0, 3, 20, 512):
        fresh(stores, top)
        ballast = filled(top)
        os.truncate(ballast, max(ballast.stat().st_size - room * 4096, 0))
        code, said = run(words, stores, top)
        ballast.unlink()
        ended.append(code)
        if code:
            assert code == 3, said
            assert "No space left on device" in said, said
            assert " MiB left" in said, said
            behind = re.search("--skip ([0-9]+)", said)
            again = run([*words, "--skip", behind[1]] if behind else words, stores, top)
            assert again[0] == 0, again
        there = found(top)
        for store, rows in wanted.items():
            lost, more = (Counter(rows) - Counter(there[store]),
                          Counter(there[store]) - Counter(rows))  # fmt: skip
            assert not lost, (room, store, said, again, len(lost))
            assert not more, (room, store, said, again, len(more))
        if name == "expire":
            assert unlocked(top) == state, room
        if not code:
            break
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "none", str(top)], check=True)
    fresh(stores, top)
    before = unlocked(top)
    subprocess.run(["mount", "-o", "remount,ro", str(top)], check=True)
    code, said = run(words, stores, top)
    assert code in (2, 3), said
    assert said.count("\n") == 0, said
    assert "should not happen" not in said, said
    assert "Read-only file system" in said, said
    assert unlocked(top) == before
    print(json.dumps(ended))


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("stores")
    make(folder)
    return folder


def in_namespace(call: str, *words: str) -> str:
    """What a function of this module prints where it may mount."""
    unshare = shutil.which("unshare")
    if unshare is None or subprocess.run([unshare, "-rm", "true"], capture_output=True).returncode:
        pytest.skip("no unshare, or no user namespaces: nothing can be mounted here")
    script = "import sys; from pathlib import Path; from tests.attack import test_small_disks as t;"
    done = subprocess.run(["unshare", "-rm", sys.executable, "-c", f"{script} t.{call}", *words],
                          cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)},
                          capture_output=True, text=True, timeout=300)  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout.splitlines()[-1]


@pytest.mark.long
def test_a_full_disk_is_named_with_its_size_and_what_to_do(stores: Path, tmp_path: Path) -> None:
    call = "all_on_a_full_disk(Path(sys.argv[1]), Path(sys.argv[2]))"
    ended = json.loads(in_namespace(call, str(stores), str(tmp_path)))
    for name, (code, said) in ended.items():
        if name == "expire":  # it writes nothing
            continue
        assert code == 3, (name, said)
        assert said.count("\n") == 0, (name, said)
        assert f"the disk at {tmp_path} has 0 bytes of 4.0 MiB left; make room" in said, name
        assert len(said.replace(str(tmp_path), "/data")) <= 300, (name, said)


@pytest.mark.long
@pytest.mark.parametrize("name", WORKS)
def test_a_full_and_a_read_only_disk(name: str, stores: Path, tmp_path: Path) -> None:
    call = "on_small_disk(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]))"
    ended = json.loads(in_namespace(call, name, str(stores), str(tmp_path)))
    assert ended[0] == (0 if name == "expire" else 3)  # it writes nothing
    assert ended[-1] == 0


# --- Commands that change a store, while somebody has it: refused, by name, and nothing is changed.
# These only read a store.
LEAVE_IT = ("backup", "restore", "forget", "convert", "export", "parquet", "rebuild", "repair",
            "report")  # fmt: skip


@pytest.mark.parametrize("name", [name for name in WORKS if name not in LEAVE_IT])
def test_a_second_one_at_once_is_refused(name: str, stores: Path, tmp_path: Path) -> None:
    for each in ("store", "behind"):
        shutil.copytree(stores / each, tmp_path / each)
    (tmp_path / "replica/commitlog").mkdir(parents=True)
    releases = [DiskFiles(str(tmp_path / each)).lock("lock") for each in (
        "store", "behind", "replica")]  # fmt: skip
    before = unlocked(tmp_path)
    try:
        code, said = run(WORKS[name], stores, tmp_path)
    finally:
        for release in releases:
            release()
    assert code == 2
    assert "open already" in said or "holds its lock" in said, said
    assert unlocked(tmp_path) == before
    assert run(WORKS[name], stores, tmp_path)[0] == 0
