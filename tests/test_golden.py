"""Every golden store, rebuilt by either engine, is RocketMQ's own in every byte."""

import hashlib
import json
import re
from pathlib import Path

import pytest

from reput import DamageFound, rebuild
from reput.jobs.engines.engine import Engine
from reput.jobs.outputs.report import Summary
from reput.jobs.rebuild import REFUSE, TRUNCATE
from tests import golden_stores
from tests.golden_rebuilds import rebuild_difference
from tests.golden_stores import GoldenStore
from tests.in_process import as_text
from tests.reference import derive
from tests.rocketmq.judge import derived_files, difference

# Damage with live records after it: refused, unless asked to end the log there. What each says
# of the record at fault: field, reason and value.
DAMAGED = {
    "middle_crc_5.3.3": r"bodyCRC does not match the body",
    "middle_length_5.3.3": r"propertiesLength the lengths of the parts do not add up",
    "middle_magic_5.3.3": r"magic not a record's magic number",
    "middle_properties_5.3.3": r"propertiesLength the lengths of the parts do not add up",
    "middle_size_5.3.3": r"totalSize reaches past the end of the segment \(totalSize \d+\)",
}
# Bad ends with nothing live behind: the end of the log, and a warning.
BAD_TAILS = {
    "torn_tail_5.3.3": "nothing live follows", "bad_magic_tail_5.3.3": "nothing live follows",
    "garbage_tail_5.3.3": "nothing live follows", "continued_5.3.3": "nothing live follows",
}  # fmt: skip


def rebuild_golden(
    engine: Engine, store: GoldenStore, output: Path, on_damage: str = REFUSE
) -> Summary:
    return rebuild(engine, str(store.input), str(output), rocketmq=store.version,
                   settings=as_text(store.settings), on_damage=on_damage)  # fmt: skip


# The small ones are rebuilt without an engine's processes: below.
LARGE = [name for name in golden_stores.names() if not name.startswith("small_")]
# A store of each kind: those that are rebuilt on Spark in `make test` too.
BOTH = ("mixed_4.1.0", "mixed_5.3.3", "lmq_batch_5.3.3", "expired_5.3.3", "many_queues_5.3.3",
        "broker_clean_5.3.3", "middle_crc_5.3.3", "torn_tail_5.3.3")  # fmt: skip


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=pytest.mark.both if n in BOTH else ()) for n in LARGE]
)
def test_a_golden_store_is_rebuilt_byte_for_byte(engine: Engine, name: str, tmp_path: Path) -> None:
    store, output = golden_stores.unpack(name), tmp_path / "output"
    summary = rebuild_golden(engine, store, output, TRUNCATE if name in DAMAGED else REFUSE)
    assert difference(output, store.expect) is None
    assert len(list(derived_files(output))) > 1
    assert list(tmp_path.iterdir()) == [output]
    check_manifest(output, summary)
    for warning in BAD_TAILS, DAMAGED:
        if name in warning:
            assert re.search(warning[name], summary.warnings[0]), summary.warnings
    if name not in BAD_TAILS | DAMAGED:
        assert not [text for text in summary.warnings if "offset" in text]


def check_manifest(output: Path, summary: Summary) -> None:
    """The manifest has every file there is, with its length and digest, and nothing else."""
    manifest = json.loads((output / "manifest.json").read_text())
    there = {path.relative_to(output).as_posix(): path for path in output.rglob("*")
             if path.is_file() and path.name != "manifest.json"}  # fmt: skip
    assert {file["path"] for file in manifest["files"]} == there.keys()
    for file in manifest["files"]:
        path = there[file["path"]]
        assert path.stat().st_size == file["length"]
        with path.open("rb") as content:
            used = content.read(file["written"])
            assert hashlib.sha256(used).hexdigest() == file["sha256"], path
            assert not any(content.read()), path
    assert manifest["messages"] == summary.messages
    assert [file["length"] for file in manifest["inputs"]] == [Path(file["path"]).stat().st_size
        for file in manifest["inputs"]]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "says"),
    [pytest.param(*e, marks=pytest.mark.both if e[0] in BOTH else ()) for e in DAMAGED.items()],
)
def test_damage_before_live_records_is_refused_by_name(engine, name, says, tmp_path) -> None:
    store, output = golden_stores.unpack(name), tmp_path / "output"
    output.mkdir()
    with store.segments() as segments:
        end = derive(segments, store.settings, store.version, store.topic_attributes).end
        start = max(start for start in segments if start <= end)
    with pytest.raises(DamageFound) as refused:
        rebuild_golden(engine, store, output)
    place = f"{store.input}/commitlog/{start:020d}: offset {end - start} (physical {end}): "
    assert str(refused.value).startswith(place)
    assert re.search(says, str(refused.value))
    live = re.search(r"live records follow, the first at offset (\d+)", str(refused.value))
    assert live is not None
    assert int(live[1]) > end
    assert list(tmp_path.rglob("*")) == [output]  # empty as it was, and no staging beside it


# --- RocketMQ's own bytes without Spark: what `make mutants` breaks rules against, one by one.
STORES = [name for name in golden_stores.names() if not name.startswith(("default_", "broker_"))]


# three slot ranges an index file, or one, as where files are many; and queues in shares then
CASES = [(name, 3) for name in STORES] + [(n, 1) for n in STORES if n == "mixed_5.3.3"]


@pytest.mark.parametrize(("name", "ranges"), CASES)
def test_a_golden_store_in_this_process(name: str, ranges: int, tmp_path: Path) -> None:
    assert rebuild_difference(name, ranges, tmp_path) is None
