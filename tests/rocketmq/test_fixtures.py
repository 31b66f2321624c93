"""The small stores of tests/golden come out again, byte for byte, of the RocketMQ they are from."""

import hashlib
from pathlib import Path

import pytest

from tests.golden_stores import ARCHIVES
from tests.rocketmq.fixtures import KINDS, make_fixture

pytestmark = pytest.mark.rocketmq
ALL = [(kind, version) for kind, (versions, _) in KINDS.items() for version in versions]


@pytest.mark.long
@pytest.mark.parametrize(("kind", "version"), ALL)
def test_a_fixture_comes_out_again(kind: str, version: str, tmp_path: Path) -> None:
    archive = make_fixture(kind, version, tmp_path)
    digest = hashlib.sha256(archive.read_bytes()).hexdigest()
    assert f"{digest}  {archive.name}" in (ARCHIVES / "SHA256SUMS").read_text().splitlines()
