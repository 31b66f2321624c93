"""A pytest plugin: how xdist gives files of tests to its processes, of which a test may end one."""

from typing import Any

import pytest
from xdist.scheduler import LoadFileScheduling


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> "Files | None":
    return Files(config, log) if config.getoption("dist") == "loadfile" else None


class Files(LoadFileScheduling):
    """xdist's own would give a test that ended its process to the next one, again and again; fail
    where two end at once: one is given work before it has said which tests it has found; and wait
    for ever for one that was given a single test, as it begins none before it knows the next."""

    def remove_node(self, node: Any) -> str | None:
        work = self.assigned_work.pop(node)
        left = [(test, unit) for unit in work.values() for test, done in unit.items() if not done]
        for test, unit in left[:1]:
            unit[test] = True
        self.workqueue.update({name: unit for name, unit in work.items() if not all(unit.values())})
        for other in self.assigned_work:
            self._reschedule(other)
        return left[0][0] if left else None

    def _reschedule(self, node: Any) -> None:
        if node in self.registered_collections:
            super()._reschedule(node)
            while not node.shutting_down and self._pending_of(self.assigned_work[node]) < 2:
                super()._reschedule(node)
