"""Each command, then a real broker past all due times: consumers get each message once."""

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.rocketmq.driver import Driver
from tests.rocketmq.whole import ledger
from tests.rocketmq.whole.cases import CASES, Case, Refused, Ways
from tests.rocketmq.whole.life import Made, Size, features, live
from tests.rocketmq.whole.reports import BY_REPUT
from tests.seeds import spread

pytestmark = [pytest.mark.rocketmq, pytest.mark.timeout(1800)]

RELEASE = "5.3.3"
RELEASES = ("4.9.7", RELEASE, "5.1.4", "5.4.0", "5.5.1")
KILL_AFTER = (0.7, 1.4, 2.1)  # seconds
# Reports whose stores are of one release or engine; of all others RELEASE, and files.
OF_REPORTS = {"9957": (RELEASE, "rocksdb"), "10668": ("5.5.1", "files")}
EVERY = CASES | {f"#{number}": case for number, case in BY_REPUT.items()}


class Lives:
    """One life by release and engine of queues, for all tests of a session."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self._folder, self._stack = folder, stack
        self._made: dict[str, Made] = {}
        self._clients: dict[str, Driver] = {}

    def client(self, version: str) -> Driver:
        if version not in self._clients:
            self._clients[version] = self._stack.enter_context(Driver(version))
        return self._clients[version]

    def made(self, version: str, queues: str, mark: str = "") -> Made:
        name = f"{version}-{queues}-{mark}"
        if name not in self._made:
            folder = self._folder / name
            folder.mkdir(exist_ok=True)
            own = Size(*self.made(version, queues).size) if mark else Size().on_this_machine()
            self._made[name] = live(version, folder, self.client(version), own, queues, mark)
        return self._made[name]


@pytest.fixture(scope="session")
def lives(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lives]:
    with ExitStack() as stack:
        yield Lives(tmp_path_factory.mktemp("whole"), stack)


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


def _names(true: Callable[[Case], bool] = lambda _: True) -> list[str]:
    return [name for name, case in CASES.items() if true(case)]


@pytest.mark.parametrize("name", _names(lambda case: case.small))
def test_a_small_store_is_whole_after(name: str, each_once: Callable[..., None]) -> None:
    each_once(name, RELEASE, "files")


@pytest.mark.long
@pytest.mark.parametrize(("kill", "name"), spread(KILL_AFTER, _names(lambda case: case.killed)))
def test_a_command_that_was_killed_and_run_again(
    name: str, kill: float, each_once: Callable[..., None]
) -> None:
    each_once(name, RELEASE, "files", kill)


MADE = [(version, queues) for version in RELEASES
        for queues in ("files", "rocksdb")[: 1 + ("rocksdb" in features(version))]]  # fmt: skip


def _each() -> Iterator[tuple[str, str, str]]:
    """Each case on one of those that do not refuse it, in turn, and on one that does; on all with
    REPUT_EVERY=1."""
    for place, (name, case) in enumerate(CASES.items()):
        able = [made for made in MADE if case.needs <= features(*made)]
        groups = [[made for made in able if case.is_refused(made[1]) == no] for no in (False, True)]
        for some in filter(None, groups):
            every = os.environ.get("REPUT_EVERY")
            yield from ((*made, name) for made in (some if every else [some[place % len(some)]]))


@pytest.mark.long
@pytest.mark.parametrize(("version", "queues", "name"), [*_each()])
def test_a_store_is_whole_after(version, queues, name, each_once: Callable[..., None]) -> None:
    each_once(name, version, queues)


@pytest.mark.long
@pytest.mark.parametrize("number", BY_REPUT)
def test_what_a_public_report_is_of(number: str, each_once: Callable[..., None]) -> None:
    each_once(f"#{number}", *OF_REPORTS.get(number, (RELEASE, "files")))
