"""What Python processes that run tasks are started with, by Spark or by our own engine."""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import reput


def our_packages(env: Mapping[str, str]) -> dict[str, str]:
    """Our packages and those of PYTHONPATH, without the current folder, which `python -m` puts
    first: a pandas.py in a user's folder of downloads would run.
    """
    here = str(Path(reput.__file__).absolute().parent.parent)
    path = os.pathsep.join(filter(None, (here, env.get("PYTHONPATH"))))
    return {"PYTHONPATH": path, "PYTHONSAFEPATH": "1"}


@contextmanager
def environment(variables: Mapping[str, str]) -> Iterator[None]:
    """Have the environment say this besides, within the block."""
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
