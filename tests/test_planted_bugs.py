"""Every planted bug still has the line that it breaks; planting them all takes half an hour."""

import collections

import pytest

from tests.mutants import ALL
from tests.planting import ROOT, Bug


@pytest.mark.parametrize("bug", ALL, ids=[bug.name for bug in ALL])
def test_a_planted_bug_can_be_planted(bug: Bug) -> None:
    source = (ROOT / bug.path).read_text()
    assert bug.planted_in(source) != source
    modules = [word.partition("::")[0] for word in bug.tests if word.startswith("tests/")]
    assert modules
    assert all((ROOT / module).exists() for module in modules), modules


def test_names_are_distinguished() -> None:
    (_, times), *_ = collections.Counter(bug.name for bug in ALL).most_common(1)
    assert times == 1
