"""`reput append` is killed at a random moment; the real RocketMQ starts on what is left.

After its own recovery it finds every key of the log exactly once.
"""

import json
import random
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from reput.store_format.message.message import parse_properties
from tests.broker.writer.rocketmq_load import Keys, entries
from tests.broker.writer.stores import stored_records
from tests.reference.javatext import hash_code
from tests.rocketmq.driver import Driver

pytestmark = pytest.mark.rocketmq

_ROOT = Path(__file__).parents[2]
_MESSAGES = 400_000
KINDS = {"one index file": {"mappedFileSizeCommitLog": 1 << 20, "maxHashSlotNum": 1000,
                            "maxIndexNum": 5_000_000, "flushConsumeQueueThoroughInterval": 1000},
         "rollovers": {"mappedFileSizeCommitLog": 1 << 20, "mappedFileSizeConsumeQueue": 20_000,
                       "maxHashSlotNum": 997, "maxIndexNum": 8_000,
                       "flushConsumeQueueThoroughInterval": 50},
         "default sizes": {"flushConsumeQueueThoroughInterval": 1000}}  # fmt: skip


@pytest.fixture(scope="module")
def lines(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("lines") / "messages.jsonl"
    with path.open("w") as file:
        for number in range(_MESSAGES):
            message = {
                "topic": f"T{number % 3}", "body": "x" * (number * 37 % 200), "tags": "t",
                "queue_id": number % 4, "keys": f"k{number} l{number}" if number % 5 else "",
            }  # fmt: skip
            file.write(json.dumps(message) + "\n")
    return path


def kill_an_append(store: Path, lines: Path, version: str, seed: str, **settings: object) -> None:
    """Append until a random moment, then kill -9."""
    abort, before = store / "abort", time.time_ns()
    words = [word for name, size in settings.items() for word in ("--set", f"{name}={size}")]
    command = [sys.executable, "-m", "reput", "append", "--yes", str(store), "--from", str(lines)]
    command += ["--rocketmq", version]
    process = subprocess.Popen(
        [*command, *words], cwd=_ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    )
    while process.poll() is None:
        noted = store / "checkpoint"
        if abort.exists() and noted.exists() and noted.stat().st_mtime_ns > before:
            break
        time.sleep(0.01)
    time.sleep(random.Random(seed).uniform(0, 3))
    process.kill()
    _, errors = process.communicate()
    assert abort.exists(), f"it was not killed while it appended: {errors.decode()[-500:]}"


def keys_of_log(store: Path, tags: bool) -> Keys:
    """Every key of every record, once each. tags: the release indexes TAGS too."""
    found: Keys = Counter()
    for record in stored_records(store / "commitlog"):
        topic, properties = record.topic, parse_properties(record.properties)
        words = [properties["UNIQ_KEY"], *properties.get("KEYS", "").split()]
        words += [f"T#{properties['TAGS']}"] if tags else []
        for word in words:
            found[abs(hash_code(f"{topic}#{word}")), record.physical_offset] += 1
    return found


def keys_found(store: Path, slots: int) -> Keys:
    found: Keys = Counter()
    for path in sorted((store / "index").iterdir()):
        found += entries(path.read_bytes(), slots)
    return found


def check_rocketmq_finds_each_key_once(
    driver: Driver, store: Path, to: Path, settings: dict[str, int]
) -> int:
    """Start RocketMQ on a copy; returns how many keys there were."""
    subprocess.run(["cp", "-a", "--sparse=always", str(store), str(to)], check=True)
    driver.derive(to, settings, mode="as-is", pace=500)
    expected = keys_of_log(to, tags=driver.version >= "5.4.0")
    found = keys_found(to, settings.get("maxHashSlotNum", 5_000_000))
    lacking, twice = expected - found, found - expected
    assert not lacking, f"{len(lacking)} of {len(expected)} keys are not found"
    assert not twice, f"{len(twice)} keys are found that are none, or twice"
    subprocess.run(["rm", "-rf", str(to)], check=True)
    return len(expected)


def _kill_and_ask(
    tmp_path: Path, lines: Path, version: str, kind: str, kills: int, seed: str
) -> None:
    settings = KINDS[kind]
    store = tmp_path / "store"
    grown = 0
    with Driver(version) as driver:
        for kill in range(kills):
            kill_an_append(store, lines, version, f"{seed} {kill}", **settings)
            keys = check_rocketmq_finds_each_key_once(
                driver, store, tmp_path / f"copy{kill}", settings
            )
            assert keys >= grown
            grown = keys
    assert grown


@pytest.mark.long
def test_rocketmq_finds_each_key_once_after_a_kill(tmp_path: Path, lines: Path) -> None:
    """Before, it found less than half of them, or some twice."""
    _kill_and_ask(tmp_path, lines, "5.3.3", "rollovers", 2, "quick")


@pytest.mark.long
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("version", "kills"), [("5.3.3", 4), ("4.9.7", 2), ("5.5.0", 2)])
def test_kills_of_each_kind(tmp_path, lines: Path, kind: str, version: str, kills: int) -> None:
    _kill_and_ask(tmp_path, lines, version, kind, kills, f"{kind} {version}")
