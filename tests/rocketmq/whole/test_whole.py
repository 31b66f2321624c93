"""Each command, then a real broker past all due times: consumers get each message once."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.rocketmq.judge import Drivers
from tests.rocketmq.whole import ledger
from tests.rocketmq.whole.cases import CASES, Refused, Ways
from tests.rocketmq.whole.life import Made, Size, features, live
from tests.rocketmq.whole.reports import BY_REPUT

pytestmark = [pytest.mark.rocketmq, pytest.mark.timeout(1800)]

RELEASE = "5.3.3"
RELEASES = ("4.9.7", RELEASE, "5.5.1")
KILL_AFTER = (0.3, 0.5, 0.7)  # seconds: a command takes one or two
# Reports whose stores are of one release or engine; of all others RELEASE, and files.
OF_REPORTS = {"9957": (RELEASE, "rocksdb"), "10668": ("5.5.1", "files")}
EVERY = CASES | {f"#{number}": case for number, case in BY_REPUT.items()}


class Lives:
    """One life by release and engine of queues, for all tests of a session."""

    def __init__(self, folder: Path, drivers: Drivers) -> None:
        self._folder, self.client = folder, drivers.get
        self._made: dict[str, Made] = {}

    def made(self, version: str, queues: str, mark: str = "") -> Made:
        name = f"{version}-{queues}-{mark}"
        if name not in self._made:
            folder = self._folder / name
            folder.mkdir(exist_ok=True)
            own = Size(*self.made(version, queues).size) if mark else Size().on_this_machine()
            self._made[name] = live(version, folder, self.client(version), own, queues, mark)
        return self._made[name]


@pytest.fixture(scope="session")
def lives(tmp_path_factory: pytest.TempPathFactory, drivers: Drivers) -> Lives:
    return Lives(tmp_path_factory.mktemp("whole"), drivers)


@pytest.fixture
def each_once(lives: Lives, folder: Path) -> Callable[..., None]:
    """Runs a case, and a broker on what it made."""

    def run(name: str, version: str, queues: str, kill: float | None = None) -> None:
        made = lives.made(version, queues)
        other = lambda: lives.made(version, queues, "second-")  # noqa: E731
        ways, case = Ways(made, folder, other, kill), EVERY[name]
        if case.is_refused(queues):
            with pytest.raises(Refused, match="reput: error: "):
                case.run(ways)
            return
        served = case.run(ways)
        client = lives.client(version)
        got = ledger.run(served.version, served.store, client, served.expected, served.settings)
        assert (got.wrong(served.expected), served.ended_with) == ({}, 0), served.said

    return run


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.small])
def test_a_small_store_is_whole_after(name: str, each_once: Callable[..., None]) -> None:
    each_once(name, RELEASE, "files")


MADE = [(version, queues) for version in RELEASES
        for queues in ("files", "rocksdb")[: 1 + ("rocksdb" in features(version))]]  # fmt: skip


def _each() -> Iterator[tuple[str, str, str, float | None]]:
    """Each case on one of those that do not refuse it, in turn, and on one that does; on all with
    REPUT_EVERY=1. kill: after how many seconds a command is killed, which is then run again."""
    for place, (name, case) in enumerate(CASES.items()):
        able = [made for made in MADE if case.needs <= features(*made)]
        for refused in (False, True):
            some = [made for made in able if case.is_refused(made[1]) == refused]
            if not os.environ.get("REPUT_EVERY"):
                some = [some[place % len(some)]] if some else []
            kill = KILL_AFTER[place % 3] if case.killed and not refused else None
            yield from ((*made, name, kill) for made in some)


@pytest.mark.long
@pytest.mark.parametrize(("version", "queues", "name", "kill"), [*_each()])
def test_a_store_is_whole_after(version, queues, name, kill, each_once) -> None:
    each_once(name, version, queues, kill)


@pytest.mark.long
@pytest.mark.parametrize("number", BY_REPUT)
def test_what_a_public_report_is_of(number: str, each_once: Callable[..., None]) -> None:
    each_once(f"#{number}", *OF_REPORTS.get(number, (RELEASE, "files")))
