"""What is shipped, and the direction of imports: jobs -> udfs -> store_format."""

import ast
import subprocess
import sys
import sysconfig
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

import reput
from tests.processes import package_source, run_python

ROOT = Path(__file__).parent.parent
PACKAGES = ("store_format", "broker", "udfs", "jobs")
# Beyond the standard library, what each package may import.
ALLOWED = {
    "store_format": {"store_format", "numpy", "numba"},
    "broker": {"broker", "store_format", "numpy", "numba"},
    "udfs": {"udfs", "broker", "store_format", "numpy", "pyarrow"},
    "jobs": {
        "reput", "jobs", "udfs", "broker", "store_format", "numpy", "pyarrow", "pyspark", "py4j",
    },
}  # fmt: skip
# S3's client is imported when an s3:// URL is given.
EXCEPTIONS = {
    "store_format/files/s3.py": {"botocore"}, "store_format/files/arrow.py": {"pyarrow"},
    # its zstd
    "store_format/files/frames.py": {"pyarrow"},
    # queues, index and config that brokers keep in RocksDB
    "store_format/rocksdb/database.py": {"rocksdict"},
    # what parses SQL92 expressions
    "store_format/filter/sql.py": {"lark"},
    # RE2
    "store_format/filter/texts.py": {"pyarrow"},
    # its codecs, where a body is compressed by LZ4 or zstd
    "store_format/message/bodies.py": {"pyarrow"},
    # Delta tables
    "jobs/exporting/delta_writers.py": {"deltalake"},
    # what Prometheus reads
    "jobs/metrics.py": {"prometheus_client"},
    # where a shell asks
    "jobs/completion.py": {"argcomplete"}, "jobs/cli.py": {"argcomplete"},
    # what numba compiles with, and comes with
    "store_format/kernels/compiler.py": {"llvmlite"},
}  # fmt: skip


def modules(package: str) -> Iterator[Path]:
    for path in sorted((ROOT / package).rglob("*.py")):
        yield path.relative_to(ROOT)


def imported(source: str) -> Iterator[str]:
    """Top-level names of all that a module imports, inside functions too."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (_top(alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"relative import in line {node.lineno}"
            yield _top(str(node.module))


def _top(module: str) -> str:
    """The package that a dotted name begins with; of ours, which of the three."""
    names = module.removeprefix("reput.").split(".")
    return names[0]


@pytest.mark.parametrize("package", PACKAGES)
def test_imports_point_one_way(package: str) -> None:
    for module in modules(package):
        allowed = ALLOWED[package] | EXCEPTIONS.get(module.as_posix(), set())
        foreign = set(imported((ROOT / module).read_text())) - sys.stdlib_module_names - allowed
        assert not foreign, f"{module} imports {', '.join(sorted(foreign))}"


def shipped() -> set[str]:
    """The files a wheel and the zip must both have."""
    paths = {module.as_posix() for package in PACKAGES for module in modules(package)}
    paths |= {"store_format/release/harmless_settings.txt"}
    paths |= {each.relative_to(ROOT).as_posix() for each in (ROOT / "jobs/page/assets").iterdir()}
    return {f"reput/{path}" for path in paths} | {"reput/__init__.py", "reput/__main__.py",
                                                  "reput/py.typed"}  # fmt: skip


def test_the_wheel_has_the_packages_and_the_command(tmp_path: Path) -> None:
    package_source(tmp_path)  # a build leaves folders in its source
    build = "from setuptools import build_meta; print(build_meta.build_wheel('.'))"
    done = run_python("-c", build, cwd=tmp_path, check=True)
    wheel = tmp_path / done.stdout.splitlines()[-1]
    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if ".dist-info/" not in name}
        (page,) = [name for name in names if ".data/" in name]
        about = {name.split("/")[-1]: name for name in archive.namelist() if ".dist-info" in name}
        metadata = archive.read(about["METADATA"]).decode()
        commands = archive.read(about["entry_points.txt"]).decode()
    assert names == shipped() | {"reput/jobs/demo_store.tar.xz", page}
    assert page.endswith(".data/data/share/man/man1/reput.1")
    assert wheel.stat().st_size < 3_000_000
    assert "reput = reput.jobs.cli:command" in commands
    plain = [line for line in metadata.splitlines() if line.startswith("Requires-Dist")
             and "extra" not in line]  # fmt: skip
    assert "LICENSE" in about
    assert not any("pyspark" in line for line in plain)


def test_the_zip_has_the_packages_and_is_reproducible(tmp_path: Path) -> None:
    written = []
    for name in ("a.zip", "b.zip"):
        command = [sys.executable, str(ROOT / "scripts" / "make_zip.py"), str(tmp_path / name)]
        subprocess.run(command, check=True, capture_output=True)
        written.append((tmp_path / name).read_bytes())
    assert written[0] == written[1]
    with zipfile.ZipFile(tmp_path / "a.zip") as archive:
        assert set(archive.namelist()) == shipped()


def test_code_is_importable_from_the_zip(tmp_path: Path) -> None:
    target = tmp_path / "reput.zip"
    subprocess.run([sys.executable, str(ROOT / "scripts" / "make_zip.py"), str(target)], check=True,
                   capture_output=True)  # fmt: skip
    # -S leaves out site-packages, and with it the line that points to this checkout.
    program = (
        f"import sys; sys.path[:0] = [{str(target)!r}]\n"
        f"sys.path += [{sysconfig.get_paths()['purelib']!r}]\n"
        "import reput.udfs, reput.jobs, reput.store_format.release.profiles as p; print(p.__file__)"
    )
    done = run_python("-S", "-c", program, cwd=tmp_path, check=True)
    assert str(target) in done.stdout


# --- What `import reput` gives, and what it costs.
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
    done = run_python("-m", "mypy", "--strict", "--cache-dir", tmp_path / "c", program,
                      cwd=tmp_path)  # fmt: skip
    assert done.returncode == 0, done.stdout
    assert done.stdout.count("Revealed type") == 5
    assert '"Any"' not in done.stdout
