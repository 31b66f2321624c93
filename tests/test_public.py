"""What `import reput` gives, and what it costs."""

import ast
from pathlib import Path

import pytest

import reput
from tests.processes import run_python

ROOT = Path(__file__).parents[1]


@pytest.mark.parametrize("name", reput.__all__)
def test_every_public_name_is_there(name: str) -> None:
    assert getattr(reput, name) is not None
    assert name in dir(reput)


def test_type_checkers_see_every_public_name() -> None:
    """They read the imports under TYPE_CHECKING; Python reads the table. Both say the same."""
    seen = {alias.asname: f"{node.module}.{alias.name}"
            for node in ast.walk(ast.parse((ROOT / "reput" / "__init__.py").read_text("utf-8")))
            if isinstance(node, ast.ImportFrom)
            for alias in node.names if alias.asname}  # fmt: skip
    assert seen == {name: f"{module}.{name}" for name, module in reput._PUBLIC.items()}


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'rebuilt'"):
        _ = reput.rebuilt  # type: ignore[attr-defined]


def test_an_import_loads_nothing_else() -> None:
    """A worker pays for what it uses alone; `reput.rebuild` is named without Spark."""
    program = ("import sys, reput\n" "print([m for m in sys.modules if m.split('.')[0] in "
               "('numba', 'numpy', 'pyspark', 'pyarrow', 'pandas') or m.startswith('reput.')])\n"
               "sys.modules['pyspark'] = None\n" "print(reput.rebuild.__name__)")  # fmt: skip
    done = run_python("-c", program, check=True)
    assert done.stdout.splitlines() == ["[]", "rebuild"]


_TYPED = """
from __future__ import annotations

import reput
from reput import Message, open_store, open_writer

store = open_store("/data/store", rocketmq="5.3.3", settings={"maxIndexNum": "400"})
topics: list[str] = [row.topic for row in store.topics()]
reveal_type(store.query("T", "k"))
reveal_type(reput.rebuild("/data/store", "/data/to", rocketmq="5.3.3"))
reveal_type(reput.verify("/data/store", "/data/to"))
reveal_type(reput.check("/data/store"))
with open_writer("/data/store") as writer:
    reveal_type(writer.append(Message(topic="T", body=b"")).status)
"""


@pytest.mark.long
def test_a_users_program_passes_mypy_strict(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(_TYPED)
    done = run_python(
        "-m", "mypy", "--strict", "--cache-dir", tmp_path / "c", program, cwd=tmp_path
    )
    assert done.returncode == 0, done.stdout
    assert done.stdout.count("Revealed type") == 5
    assert '"Any"' not in done.stdout
