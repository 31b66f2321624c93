"""Progress is true: bytes, messages and an end for each stage, on a terminal and without one."""

import io
import re
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import pytest

from reput.jobs.console import progress
from reput.jobs.console.progress import ShownProgress, tell_of_first_run, tell_of_no_cache
from reput.jobs.pipeline.link import Linked
from reput.jobs.pipeline.stages import Stages
from reput.store_format.files.private import cache_folder
from reput.store_format.files.protocol import FileState, Listed
from reput.store_format.notes import Done, Progress
from tests.processes import until


def staged(*files: tuple[str, int]) -> Any:
    listed = [Listed(name, FileState(size, 0, 0)) for name, size in files]
    return SimpleNamespace(folder="s", storage=SimpleNamespace(list=lambda _: listed))


def engine(share: float | None = None) -> Any:
    return SimpleNamespace(share_done=lambda: share)


class Asked(Progress):
    """Remembers what a stage says of itself."""

    def stage(self, name: str, done: Any) -> Any:
        self.name, self.done = name, done
        return mock.MagicMock()


@pytest.mark.parametrize(
    ("files", "share", "text"),
    [((), 0.0, "0 of 3,000 bytes, of 100 messages"),
     ((("queue-a", 500), ("index-a", 400), ("scan-a.runs", 9999)), 0.3, "900 of 3,000"),
     # queue files end with zeros, which are no entries
     ((("queue-a", 6_000_000), ("index-a", 500)), 2500 / 3000, "2,500 of 3,000"),
     ((("queue-a", 6_000_000), ("index-a", 1000)), 1.0, "3,000 of 3,000")],
)  # fmt: skip
def test_built_counts_bytes_of_queues_and_index(files, share, text) -> None:
    asked = Asked()
    stages = Stages(engine(), mock.MagicMock(), staged(*files), asked)
    stages.built(Linked([{"records": 60}, {"records": 40}]), 1000)  # type: ignore[list-item]
    done = asked.done()
    assert (asked.name, done.share) == ("built", share)
    assert done.text.startswith(text)


def test_what_writes_nothing_is_reported_by_tasks() -> None:
    asked = Asked()
    Stages(engine(0.6), mock.MagicMock(), staged(), asked).by_tasks("c", 1000, "bytes")
    assert asked.done() == Done(0.6, "about 600 of 1,000 bytes")
    Stages(engine(), mock.MagicMock(), staged(), asked).by_tasks("c", 1000, "bytes")
    assert asked.done() == Done(None, "1,000 bytes")


@pytest.mark.own_engine
def test_a_line_now_and_then_without_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    assert progress._LINE_SECONDS == 10
    monkeypatch.setattr(progress, "_LINE_SECONDS", 0.05)
    stream = io.StringIO()
    with ShownProgress(stream).stage("scanned", lambda: Done(0.25, "1 of 4 bytes, 7 messages")):
        assert until(lambda: bool(stream.getvalue()))
    lines = stream.getvalue().splitlines()
    assert len(lines) > 1
    assert progress._end(0.25, 10.0).startswith(", 30 s left (until ")
    assert progress._end(0.0002, 1.0) == ""  # it would say 5000 s of what takes 3
    assert progress._end(1.0, 10.0) == progress._end(None, 10.0) == ""
    assert re.fullmatch(
        r"reput: scanned  1 of 4 bytes, 7 messages, \d+ s, \d+ s left \(until \d\d:\d\d:\d\d\)",
        lines[0],
    )
    assert re.fullmatch(r"reput: scanned  1 of 4 bytes, 7 messages, \d+ s", lines[-1])


# --- What a start says of compiled kernels: where they are kept, and that they are made first.
@pytest.fixture
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A named place, a home and a folder for temporary files, all empty."""
    for name in ("named", "home", "tmp"):
        (tmp_path / name).mkdir(mode=0o700)
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "named"))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "tmp"))
    cache_folder.cache_clear()
    tell_of_no_cache.cache_clear()
    yield tmp_path
    cache_folder.cache_clear()
    tell_of_no_cache.cache_clear()


@pytest.mark.parametrize(("spoilt", "said", "more"), [
    (["named"], "are kept in {}/home/.cache/reput, for ",
     "reput: compiling kernels, once for this version (some 20 s)\n"),
    (["named", "home", "tmp"], "are compiled anew at each start: no folder ", ""),
])  # fmt: skip
def test_another_place_is_named_with_why_it_is_used_and_once(places, spoilt, said, more, capsys):
    for name in spoilt:  # there can be no folder where a file is
        (places / name).rmdir()
        (places / name).write_text("")
    tell_of_no_cache()
    tell_of_no_cache()
    errors = capsys.readouterr().err
    assert errors.startswith("reput: warning: ")
    assert f"kernels {said.format(places)}" in errors
    assert all(f"{places}/{name}" in errors for name in spoilt)
    assert errors.count("\n") == 1
    tell_of_first_run()
    assert capsys.readouterr().err == more  # without any place it is no first run: each one is
