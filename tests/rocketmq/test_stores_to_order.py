"""RocketMQ and reput derive the same bytes from stores of random kinds."""

import hashlib
from pathlib import Path

import pytest

from tests import golden_stores
from tests.golden_stores import ARCHIVES
from tests.rocketmq.case import case
from tests.rocketmq.driver import derive_mode, topic_attributes
from tests.rocketmq.fixtures import KINDS, make_fixture
from tests.rocketmq.judge import Drivers, NoVerdictError, Reput, copy, difference, judge
from tests.seeds import seeds

pytestmark = pytest.mark.rocketmq

SHORT = range(2)
LONG = range(2, 20)
# What tells the judge itself right from wrong: stores whose derived files someone else made.
GOLDEN = ("mixed_4.1.0", "mixed_4.9.7", "mixed_5.3.3", "mixed_5.4.0", "mixed_5.5.0", "odd_4.9.7")


def _judge(seed: int, folder: Path, drivers: Drivers, reput: Reput) -> None:
    ordered = case(seed)
    try:
        found = judge(ordered, folder, drivers, reput)
    except NoVerdictError as refusal:
        pytest.skip(str(refusal))
    assert found is None, ordered


@pytest.mark.parametrize("seed", SHORT)
def test_a_random_store_is_rebuilt_byte_for_byte(seed, folder, drivers, reput) -> None:
    _judge(seed, folder, drivers, reput)


@pytest.mark.long
@pytest.mark.explore
@pytest.mark.parametrize("reput", ["local"], indirect=True)
@pytest.mark.parametrize("seed", seeds(LONG))
def test_many_random_stores_are_rebuilt_byte_for_byte(seed, folder, drivers, reput) -> None:
    _judge(seed, folder, drivers, reput)


@pytest.mark.parametrize("name", GOLDEN)
def test_the_judge_derives_a_golden_store_as_it_was_derived_before(name, folder, drivers) -> None:
    golden = golden_stores.unpack(name)
    version = golden.version.removesuffix("-incubating")
    copy(golden.input, folder / "store")
    store = folder / "store"
    drivers.get(version).derive(store, golden.settings, topic_attributes(store),
                                derive_mode(version), pace=20)  # fmt: skip
    assert difference(store, golden.expect) is None


# --- The small stores of tests/golden come out again, byte for byte, of the RocketMQ they are
# from.

ALL = [(kind, version) for kind, (versions, _) in KINDS.items() for version in versions]


@pytest.mark.long
@pytest.mark.parametrize(("kind", "version"), ALL)
def test_a_fixture_comes_out_again(kind: str, version: str, tmp_path: Path) -> None:
    archive = make_fixture(kind, version, tmp_path)
    digest = hashlib.sha256(archive.read_bytes()).hexdigest()
    assert f"{digest}  {archive.name}" in (ARCHIVES / "SHA256SUMS").read_text().splitlines()
