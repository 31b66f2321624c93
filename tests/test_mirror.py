"""A reader of a module finds its test by its path: tests/jobs/test_check.py tests jobs/check.py."""

import ast
from pathlib import Path

from tests.conftest import REAL

ROOT = Path(__file__).parent.parent
PACKAGES = ("store_format", "broker", "udfs", "jobs", "reput")
_DECIDES = (ast.If, ast.IfExp, ast.While, ast.For, ast.Match, ast.BoolOp, ast.Try, ast.ListComp,
            ast.GeneratorExp, ast.SetComp, ast.DictComp)  # fmt: skip

# Modules that act on a whole process or on Spark, and those whose one function another room's tests
# hold already: where these are.
ELSEWHERE = {"jobs/pipeline/stages.py": "tests/jobs/pipeline/test_pipeline.py",
             "jobs/serve.py": "tests/jobs/sockets/test_server.py",
             "store_format/files/by_url.py": "tests/store_format/files/test_s3.py",
             "jobs/engines/preload.py": "tests/jobs/engines/test_local_local_engine.py",
             "jobs/expire.py": "tests/broker/change/test_expire.py",
             "jobs/warm.py": "tests/test_installed.py",
             "store_format/faults.py": "tests/jobs/console/test_endings.py",
             "store_format/kernels/jit.py": "tests/store_format/kernels/test_compiler.py",
             "store_format/kernels/llvm.py": "tests/store_format/kernels/test_bytes.py",
             "store_format/log/there.py": "tests/attack/test_strangers.py",
             "store_format/query/compacted.py": "tests/broker/change/test_compaction.py",
             "store_format/rewrite/changes.py": "tests/jobs/converting/test_carried.py",
             "store_format/rewrite/numbers.py": "tests/jobs/converting/test_new_log.py",
             "store_format/layouts.py": "tests/test_format_docs.py",
             "udfs/table/derived.py": "tests/jobs/sources/test_derived_source.py",
             "udfs/warm.py": "tests/store_format/files/test_private.py"}  # fmt: skip


def modules() -> list[str]:
    found = [path for name in PACKAGES for path in (ROOT / name).rglob("*.py")]
    return sorted(str(path.relative_to(ROOT)) for path in found if path.name != "__init__.py")


def decides(module: str) -> bool:
    """Whether a function of the module has a branch or a loop."""
    functions = [node for node in ast.walk(ast.parse((ROOT / module).read_text()))
                 if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]  # fmt: skip
    return any(isinstance(node, _DECIDES) for each in functions for node in ast.walk(each))


def has_own_test(module: str) -> bool:
    """Whether `test_NAME.py` is there, `test_NAME_PART.py` for a part of the module, or
    the same with another name before `_and_`: two that are one subject.
    """
    folder, name = ROOT / "tests" / Path(module).parent, Path(module).stem
    named = [each for path in folder.glob("test_*.py") for each in path.stem[5:].split("_and_")]
    return any(each == name or each.startswith(f"{name}_") for each in named)


def test_a_module_that_decides_has_its_test_at_its_path() -> None:
    without = [each for each in modules() if not has_own_test(each)]
    assert len(modules()) - len(without) > 230
    assert [each for each in without if decides(each)] == sorted(ELSEWHERE)


def test_the_tests_elsewhere_are_there() -> None:
    assert [each for each in ELSEWHERE.values() if not (ROOT / each).exists()] == []


def test_what_is_left_to_test_real_is_there() -> None:
    for line in REAL:
        path, _, name = line.partition("::")
        assert f"def {name.partition('[')[0]}" in (ROOT / "tests" / path).read_text(), line
