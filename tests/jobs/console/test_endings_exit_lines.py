"""An error says what is wrong, where, and what to do, in 300 characters: every command's, on stores
that are broken in many ways.
"""

import ast
import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from reput.jobs import cli
from reput.store_format.names import segment_name
from tests.built import write
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


def rewrite(change: Callable[[bytes], bytes], *patterns: str) -> Callable[[Path], None]:
    """Each file that a pattern finds has other bytes."""

    def harm(store: Path) -> None:
        for path in [found for each in patterns for found in store.glob(each) if found.is_file()]:
            path.write_bytes(change(path.read_bytes()))

    return harm


def hole(store: Path) -> None:
    first, second = sorted((store / "commitlog").iterdir())[:2]
    second.rename(second.with_name(segment_name(2 * first.stat().st_size)))


def no_derived(store: Path) -> None:
    for name in ("consumequeue", "index"):
        shutil.rmtree(store / name)


def linked(store: Path) -> None:
    elsewhere = (store / "commitlog").rename(store.with_name("elsewhere"))
    (store / "commitlog").symlink_to(elsewhere)


FIRST = f"commitlog/{segment_name(0)}"
QUICK = {
    "flipped": lambda store: flip(store / FIRST, 4),  # the first record's magic number
    "cut_short": rewrite(lambda raw: raw[:5000], FIRST), "hole": hole,
    "foreign_name": lambda store: (store / "commitlog" / "thesis.doc").write_bytes(b"1"),
}  # fmt: skip
BROKEN = {
    "no_log": lambda store: shutil.rmtree(store / "commitlog"), "no_derived": no_derived,
    "empty_log": lambda store: [path.unlink() for path in (store / "commitlog").iterdir()],
    "index_of_zeros": rewrite(lambda raw: bytes(len(raw)), "index/*"),
    "queues_of_odd_length": rewrite(lambda raw: raw[:-3], "consumequeue/**/0*"),
    "config_of_garbage": lambda store: write(store, dict.fromkeys(
        (f"config/{name}.json" for name in ("topics", "consumerOffset", "delayOffset")),
        b'{"topicConfigTable":[[')),
    "in_rocksdb": lambda store: write(store, dict.fromkeys(
        ("consumequeue_rocksdb/CURRENT", "consumequeue_ext/CURRENT"), b"MANIFEST-000001\n")),
    "linked": linked, "crashed": lambda store: write(store, {"abort": b"1"}),
    "checkpoint_of_garbage": lambda store: (store / "checkpoint").write_bytes(b"\xff" * 4096),
}  # fmt: skip
OF_RELEASE = ("rebuild", "recover", "repair", "verify", "export", "catch-up", "replicate")


@pytest.mark.parametrize(("how", "commands"), [
    *((how, OF_RELEASE) for how in QUICK),
    *(pytest.param(how, tuple(NEEDED), marks=pytest.mark.long) for how in (*QUICK, *BROKEN)),
], ids=lambda each: each if isinstance(each, str) else str(len(each)))  # fmt: skip
def test_errors_of_broken_stores_are_short(how: str, commands, tmp_path: Path, capsys) -> None:
    """Every second command is not told the release."""
    left = as_left("small_all_5.3.3", tmp_path)
    (QUICK | BROKEN)[how](left)
    for number, name in enumerate(commands):
        folder = tmp_path / name
        store = folder / "store"
        shutil.copytree(left, store, symlinks=True)
        words = [word.format(store=store, new=folder / "new") for word in NEEDED[name]]
        unnamed = name == "install" or (commands != OF_RELEASE and number % 2)
        with suppress(SystemExit):  # of words that argparse refuses
            given = [] if unnamed else ["--rocketmq", "5.3.3"]
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
