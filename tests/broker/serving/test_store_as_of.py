"""`reput serve --at`: random stores, as a broker would answer whose log ended at that time."""

import shutil
from pathlib import Path
from typing import Any

import pytest

from reput.broker.serving.handlers import answer, reply
from reput.broker.wire.remoting import Command
from reput.jobs.sockets.opened import ServedSource, open_broker
from tests.in_process import run
from tests.jobs.sockets.broker_answers import reported, requests
from tests.jobs.sockets.comparing import CALLER, whole
from tests.jobs.sockets.cutting import GIVEN, RELEASE, cut, differences, random_store, times


@pytest.mark.parametrize("seed", [0, *(pytest.param(n, marks=pytest.mark.long) for n in (1, 2))])
def test_at_a_time_is_as_a_log_that_ended_then(seed: int, tmp_path: Path) -> None:
    store = tmp_path / "store"
    random_store(seed, store)
    asked = list(requests(store))[::3]
    for number, time in enumerate(times(seed, store)):
        copy = tmp_path / f"cut{number}"
        cut(store, time, copy)
        run(str(copy), str(tmp_path / f"set{number}"), rocketmq=RELEASE, settings=GIVEN)
        for name in ("consumequeue", "index"):
            if (tmp_path / f"set{number}" / name).exists():
                shutil.move(tmp_path / f"set{number}" / name, copy / name)
        then = open_broker(ServedSource(str(copy), RELEASE, GIVEN), lambda _: None)

        def theirs(each: Command, then: Any = then) -> list[Any]:
            return reported(reply(then, each, whole(answer(then, each, CALLER))))

        assert len(asked) > 100
        wrong = list(differences(store, time, asked, theirs))
        assert not wrong, (len(wrong), wrong[:3])
