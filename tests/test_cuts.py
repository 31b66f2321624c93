"""The bytes do not depend on how the work is cut, nor on what a split finds first."""

from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from reput.jobs.engines.local import local_engine
from reput.jobs.pipeline.link import Rescan, link
from reput.jobs.pipeline.pipeline import Cut
from reput.jobs.rebuild import TRUNCATE, rebuild
from tests import golden_stores
from tests.against_reference import difference
from tests.golden_stores import GoldenStore
from tests.in_process import Session, as_text, rebuild_log
from tests.logs import Log, logs
from tests.logs.encoder import Message, build_log, encode, properties
from tests.processes import run_python
from tests.reference import derive
from tests.rocketmq.judge import difference as files_difference

CUTS = (1, 2, 7, 64)
MEMORY = settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
                  deadline=None)  # fmt: skip
SMALL: dict[str, Any] = {"mappedFileSizeCommitLog": 16384, "mappedFileSizeConsumeQueue": 100,
                         "maxHashSlotNum": 7, "maxIndexNum": 9}  # fmt: skip


def split_bytes(log: Log, splits: int) -> int:
    """As many splits a segment as are wanted."""
    return -(-log.settings["mappedFileSizeCommitLog"] // splits)


@settings(MEMORY, max_examples=5)
@given(logs(damage=False), st.randoms(use_true_random=False))
def test_all_cuts_give_the_same_bytes(log: Log, random: Random) -> None:
    wanted = derive(*log)
    ranges, partitions = random.sample(CUTS, 4), random.sample((None, *CUTS), 4)
    for number, splits in enumerate(CUTS):
        cut = Cut(split_bytes(log, splits), ranges[number], partitions[number])
        assert difference(rebuild_log(log, cut, Session(number)), wanted) is None, cut


# A body that is a record with the right physicalOffset: a split that starts within finds it.
# Where its size goes past the body, the walk from there misses the real next record.
FORGED_SIZES = (None, 91, 4000, 1 << 20, 0, -1)


@st.composite
def forged_logs(draw: st.DrawFn) -> Log:
    """Records whose bodies hold records that claim to stand where they do."""
    size = SMALL["mappedFileSizeCommitLog"]
    messages: list[Message] = []
    segments: dict[int, bytes] = {}
    for number in range(draw(st.integers(2, 12))):
        places = sum(len(encode(message, 0)) for message in messages)
        padding = draw(st.sampled_from([0, 1, 300, 1000]))
        at = places + 88 + padding  # of the forged record: fixed fields, then the body
        inner = Message(topic="Forged", queue_offset=number,
                        properties=properties(("KEYS", "forged")),
                        size=draw(st.sampled_from(FORGED_SIZES)),
                        body=b"x" * draw(st.sampled_from([0, 5, 500])))  # fmt: skip
        body = bytes(padding) + encode(inner, at) + bytes(draw(st.sampled_from([0, 3, 700])))
        outer = Message(topic=f"T{number % 2}", queue_offset=number // 2, body=body,
                        properties=properties(("KEYS", f"k{number}"), ("TAGS", "a")))  # fmt: skip
        assume(places + len(encode(outer, places)) + 8 <= size)
        messages.append(outer)
    segments = build_log(messages, size, extra_segments=draw(st.sampled_from([0, 1])))
    return Log(segments, SMALL, draw(st.sampled_from(["4.1.0-incubating", "5.4.0"])), {})


@pytest.fixture
def rescans(monkeypatch: pytest.MonkeyPatch) -> list[Rescan]:
    """The splits that had to be scanned again."""
    seen: list[Rescan] = []

    def watched(*arguments: Any) -> Any:
        linked = link(*arguments)
        if isinstance(linked, Rescan):
            seen.append(linked)
        return linked

    monkeypatch.setattr("reput.jobs.pipeline.link.link", watched)
    return seen


def test_a_split_that_finds_a_forged_record_is_scanned_again(rescans: list[Rescan]) -> None:
    @settings(MEMORY, max_examples=60)
    @given(forged_logs(), st.sampled_from([200, 300, 1000, 8192]))
    def run(log: Log, size: int) -> None:
        wanted = derive(*log)
        assert not any("Forged" in name for name in wanted.files)
        assert difference(rebuild_log(log, Cut(split_bytes=size)), wanted) is None

    run()
    assert len(rescans) > 20


# On engines: one store with everything, and one whose records are large against its splits.
STORES = ("mixed_5.4.0", "lmq_batch_5.3.3")


def _rebuild(engine: Any, store: GoldenStore, output: Path, cut: Cut) -> str | None:
    rebuild(engine, str(store.input), str(output), rocketmq=store.version,
            settings=as_text(store.settings), on_damage=TRUNCATE, cut=cut)  # fmt: skip
    return files_difference(output, store.expect)


@pytest.mark.parametrize(("splits", "ranges", "partitions"), [(2, 16, 1), (7, 7, None), (64, 2, 7)])
def test_cuts_on_an_engine(engine, tmp_path, splits, ranges, partitions) -> None:
    store = golden_stores.unpack("lmq_batch_5.3.3" if splits == 64 else "mixed_5.4.0")
    segments = sorted((store.input / "commitlog").iterdir())
    size = -(-segments[0].stat().st_size * len(segments) // splits)
    cut = Cut(size, ranges, partitions)
    assert _rebuild(engine, store, tmp_path / "output", cut) is None


ON_ONE_CORE = """
import sys
from pathlib import Path
from reput.jobs.pipeline.pipeline import Cut
from reput.jobs.engines.session import local_session
from tests import golden_stores
from tests.test_cuts import STORES, _rebuild

with local_session("local[1]") as spark:
    assert spark.conf.get("spark.master") == "local[1,4]"
    for name in STORES:
        output = Path(sys.argv[1]) / name
        difference = _rebuild(spark, golden_stores.unpack(name), output, Cut())
        assert difference is None, difference
print("the same")
"""


@pytest.mark.parametrize("name", STORES)
def test_one_core(name: str, tmp_path: Path) -> None:
    with local_engine(1) as engine:
        store = golden_stores.unpack(name)
        assert _rebuild(engine, store, tmp_path / "output", Cut()) is None


@pytest.mark.long
@pytest.mark.spark
def test_one_core_of_spark(tmp_path: Path) -> None:
    """local[1]; local[2] is what test_golden runs on. One process has one session."""
    root = Path(__file__).parents[1]
    done = run_python("-c", ON_ONE_CORE, tmp_path, cwd=root, timeout=300)
    assert (done.returncode, done.stdout) == (0, "the same\n"), done.stderr
