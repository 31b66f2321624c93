"""Nothing is said of healthy stores of real brokers, whatever they have lived through."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.quiet.lives import EVERY, SINCE_5, SINCE_5_4, Life, Stores
from tests.quiet.said import said
from tests.rocketmq.build import VERSIONS
from tests.rocketmq.driver import Driver
from tests.seeds import spread

pytestmark = [pytest.mark.rocketmq, pytest.mark.long]

LIVES = spread(VERSIONS, EVERY) + spread(VERSIONS[2:], SINCE_5)
LIVES += spread(("5.5.0", "5.4.0", "5.5.1"), SINCE_5_4)


@pytest.mark.parametrize(("version", "lived"), LIVES,
                         ids=[f"{life.__name__}-{version}" for version, life in LIVES])  # fmt: skip
def test_nothing_is_said(version: str, lived: Callable[[Life], Stores], tmp_path: Path) -> None:
    reported = {}
    with Driver(version) as client:
        life = Life(version, tmp_path, client)
        for store in lived(life):
            reported[store.name] = said(store, version, life.settings)
    assert reported
    assert not {name: lines for name, lines in reported.items() if lines}
