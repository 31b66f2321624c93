"""Which tests are about a module: those that name it."""

from __future__ import annotations

from collections.abc import Iterator

from tests.ledger.sources import Tree


def is_test(path: str) -> bool:
    return path.startswith("tests/") and path.rpartition("/")[2].startswith("test_")


def distances(tree: Tree, module: str) -> dict[str, int]:
    """Each test file that depends on a module: over how many imports, 1 where it names it itself.

    Raises KeyError for a path that is not in the tree.
    """
    tree.blobs[module]
    named_by: dict[str, list[str]] = {}
    for path in tree.blobs:
        if path.endswith(".py"):
            for used in tree.uses(path):
                named_by.setdefault(used, []).append(path)
    far, edge = {module: 0}, [module]
    while edge:
        edge = [
            path for used in edge for path in named_by.get(used, ())
            if far.setdefault(path, far[used] + 1) == far[used] + 1
        ]  # fmt: skip
        edge = list(dict.fromkeys(edge))
    return {path: steps for path, steps in far.items() if is_test(path)}


def lines(tree: Tree, module: str) -> Iterator[str]:
    """What `make tests-of MODULE=...` prints, the tests at the module's own path first."""
    far = distances(tree, module)
    folder, _, name = module.rpartition("/")
    own = f"tests/{folder}/test_{name}"
    beside = f"tests/{folder}/"
    direct = [path for path, steps in far.items() if steps == 1]
    yield from sorted(direct, key=lambda path: (path != own, not path.startswith(beside), path))
    if not direct:
        yield f"no test names {module}; those that name what uses it:"
        yield from sorted(path for path, steps in far.items() if steps == 2)
    yield f"{len(far) - len(direct)} test files more depend on it through other modules"
