"""The kept corpus and every crash found, as tests; and a minute of fuzzing for each target."""

import importlib.util
import re
from pathlib import Path

import pytest

from tests.fuzz.targets import TARGETS, seeds
from tests.processes import run_python
from tests.seeds import seed

CORPUS = Path(__file__).parent / "corpus"


def _inputs(name: str) -> list[bytes]:
    files = [*(CORPUS / name).glob("*"), *CORPUS.glob(f"crash-{name}-*")]
    return [*seeds(name), *(path.read_bytes() for path in sorted(files))]


@pytest.mark.parametrize("name", TARGETS)
def test_the_corpus(name: str) -> None:
    for data in _inputs(name):
        TARGETS[name](data)


@pytest.mark.long
@pytest.mark.explore
@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", TARGETS)
def test_a_while_of_fuzzing(name: str) -> None:
    if importlib.util.find_spec("atheris") is None:
        pytest.skip("no atheris: make fuzz installs it where it has a wheel")
    done = run_python("-m", "tests.fuzz", name, "--seconds", "20", f"--seed={seed(0)}")
    assert done.returncode == 0, done.stderr[-3000:]
    runs = re.search(r"Done (\d+) runs", done.stderr)
    assert runs is not None
    print(f"{name}: {int(runs[1]):,} executions")
    assert int(runs[1]) > 100
