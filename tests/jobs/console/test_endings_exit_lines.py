"""An error says what is wrong, where, and what to do, in 300 characters: every command's, on stores
that are broken in many ways.
"""

import ast
import re
import shutil
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from reput.jobs import cli
from reput.store_format.names import segment_name
from tests.golden_stores import as_left
from tests.trees import flip

ROOT = Path(__file__).parents[3]
MOST = 300  # characters, with a store's path of a usual length
pytestmark = pytest.mark.usefixtures("commands_in_process")

NEEDED = {
    "check": [], "verify": [], "report": ["--output", "{new}.html"], "topics": [], "queues": [],
    "groups": [], "stats": [], "query": ["--scan"], "trace": ["--message-id", "A" * 32],
    "transactions": [], "delayed": [], "rebuild": ["--output", "{new}"],
    "catch-up": ["--dry-run"], "recover": ["--dry-run"], "repair": ["--output", "{new}"],
    "expire": ["--dry-run", "--any-hour"], "deliver-delayed": ["--dry-run"],
    "resolve-transactions": ["--dry-run"], "export": ["--output", "{new}", "--as", "jsonl"],
    "offsets set": ["--to-end", "--dry-run"], "metrics": ["--textfile", "{new}.prom"],
    "append": ["--from", "/nowhere"], "replicate": ["{new}"], "install": ["{store}"],
    "convert": ["--output", "{new}", "--store-host", "10.0.0.7:10911"],
}  # fmt: skip
"""What each command is given besides the store."""


def flipped(store: Path) -> None:
    log = store / "commitlog" / segment_name(0)
    flip(log, 4)  # the first record's magic number


def cut_short(store: Path) -> None:
    log = store / "commitlog" / segment_name(0)
    log.write_bytes(log.read_bytes()[:5000])


def hole(store: Path) -> None:
    first, second = sorted((store / "commitlog").iterdir())[:2]
    size = first.stat().st_size
    second.rename(second.with_name(segment_name(2 * size)))


def foreign_name(store: Path) -> None:
    (store / "commitlog" / "thesis.doc").write_bytes(b"1")


def no_log(store: Path) -> None:
    shutil.rmtree(store / "commitlog")


def empty_log(store: Path) -> None:
    for path in (store / "commitlog").iterdir():
        path.unlink()


def no_derived(store: Path) -> None:
    for name in ("consumequeue", "index"):
        shutil.rmtree(store / name)


def index_of_zeros(store: Path) -> None:
    for path in (store / "index").iterdir():
        path.write_bytes(bytes(path.stat().st_size))


def queues_of_odd_length(store: Path) -> None:
    for path in (store / "consumequeue").rglob("0*"):
        if path.is_file():
            path.write_bytes(path.read_bytes()[:-3])


def config_of_garbage(store: Path) -> None:
    (store / "config").mkdir(exist_ok=True)
    for name in ("topics.json", "consumerOffset.json", "delayOffset.json"):
        (store / "config" / name).write_text('{"topicConfigTable":[[')


def in_rocksdb(store: Path) -> None:
    for name in ("consumequeue_rocksdb", "consumequeue_ext"):
        (store / name).mkdir()
        (store / name / "CURRENT").write_text("MANIFEST-000001\n")


def linked(store: Path) -> None:
    elsewhere = store.with_name("elsewhere")
    (store / "commitlog").rename(elsewhere)
    (store / "commitlog").symlink_to(elsewhere)


def crashed(store: Path) -> None:
    (store / "abort").write_text("1")


def checkpoint_of_garbage(store: Path) -> None:
    (store / "checkpoint").write_bytes(b"\xff" * 4096)


BROKEN = [no_log, empty_log, no_derived, index_of_zeros, queues_of_odd_length, config_of_garbage,
          in_rocksdb, linked, crashed, checkpoint_of_garbage]  # fmt: skip
QUICK = [flipped, cut_short, hole, foreign_name]
OF_RELEASE = ("rebuild", "recover", "repair", "verify", "export", "catch-up", "replicate")


@pytest.mark.parametrize(
    ("how", "commands"),
    [*((how, OF_RELEASE) for how in QUICK),
     *(pytest.param(how, tuple(NEEDED), marks=pytest.mark.long) for how in [*QUICK, *BROKEN])],
    ids=lambda each: each.__name__ if callable(each) else str(len(each)),
)  # fmt: skip
def test_errors_of_broken_stores_are_short(how, commands, tmp_path, capsys) -> None:
    left = as_left("small_all_5.3.3", tmp_path)
    how(left)
    for name in commands:
        for release in (["--rocketmq", "5.3.3"], [])[: 1 if commands == OF_RELEASE else 2]:
            folder = tmp_path / f"{name}-{len(release)}"
            store = folder / "store"
            shutil.copytree(left, store, symlinks=True)
            words = [word.format(store=store, new=folder / "new") for word in NEEDED[name]]
            with suppress(SystemExit):  # of words that argparse refuses
                given = release if name != "install" else []
                cli.main([*name.split(), str(store), *words, *given])
            errors = capsys.readouterr().err.replace(str(folder), "/data")
            error = "".join(line for line in errors.splitlines(True) if "reput: error: " in line)
            assert len(error) <= MOST, error
            assert "//" not in error
            for words_twice in re.findall(r"[^;.]{40,}", error):  # nothing is said twice
                assert error.count(words_twice) == 1, error


def texts(node: ast.AST) -> str:
    """A message as the source has it, with what is put in as `{}`; the longer of two."""
    match node:
        case ast.Constant(value=str(text)):
            return text
        case ast.JoinedStr(values=parts):
            return "".join(map(texts, parts))
        case ast.FormattedValue():
            return "{}"
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            return texts(left) + texts(right)
        case ast.IfExp(body=body, orelse=other):
            return max(texts(body), texts(other), key=len)
    return ""


def raised() -> Iterator[tuple[str, str]]:
    """Where each exception of the product is raised, and what it says."""
    for room in ("jobs", "broker", "store_format", "udfs"):
        for path in sorted((ROOT / room).rglob("*.py")):
            for node in ast.walk(ast.parse(path.read_text("utf-8"))):
                if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
                    for argument in node.exc.args[:1]:
                        yield f"{path.relative_to(ROOT)}:{node.lineno}", texts(argument)


def test_no_message_of_the_source_is_a_wall() -> None:
    """Paths and numbers are put in still: two thirds of the length are left for the words."""
    found = list(raised())
    assert len(found) > 500
    assert [(place, text) for place, text in found if len(text) > MOST * 2 // 3] == []
