"""RocketMQ and reput derive the same bytes from stores of random kinds."""

import hashlib
from pathlib import Path

import pytest

from tests.golden_stores import ARCHIVES
from tests.rocketmq.case import case
from tests.rocketmq.fixtures import KINDS, make_fixture
from tests.rocketmq.judge import Drivers, NoVerdictError, Reput, judge
from tests.seeds import seeds

pytestmark = pytest.mark.rocketmq

SHORT = range(2)
LONG = range(2, 20)


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


# --- The small stores of tests/golden come out again, byte for byte, of the RocketMQ they are
# from.
ALL = [(kind, version) for kind, (versions, _) in KINDS.items() for version in versions]


@pytest.mark.long
@pytest.mark.parametrize(("kind", "version"), ALL)
def test_a_fixture_comes_out_again(kind: str, version: str, tmp_path: Path) -> None:
    archive = make_fixture(kind, version, tmp_path)
    digest = hashlib.sha256(archive.read_bytes()).hexdigest()
    assert f"{digest}  {archive.name}" in (ARCHIVES / "SHA256SUMS").read_text().splitlines()
