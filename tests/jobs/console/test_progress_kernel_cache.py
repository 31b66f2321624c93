"""What a start says of compiled kernels: where they are kept, and that they are made first."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from reput.jobs.console.progress import tell_of_first_run, tell_of_no_cache
from reput.store_format.files.private import cache_folder


@pytest.fixture(autouse=True)
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


def spoilt(place: Path) -> None:
    """There can be no folder where a file is."""
    place.rmdir()
    place.write_text("")


def test_nothing_is_said_where_the_first_place_is_taken(capsys) -> None:
    tell_of_no_cache()
    assert capsys.readouterr() == ("", "")


def test_another_place_is_named_with_why_it_is_used_and_once(places: Path, capsys) -> None:
    spoilt(places / "named")
    tell_of_no_cache()
    tell_of_no_cache()
    errors = capsys.readouterr().err
    assert errors.startswith(
        f"reput: warning: compiled kernels are kept in {places}/home/.cache/reput, for "
    )
    assert f"{places}/named" in errors
    assert errors.count("\n") == 1


def test_without_any_place_each_start_compiles_anew(places: Path, capsys) -> None:
    for name in ("named", "home", "tmp"):
        spoilt(places / name)
    tell_of_no_cache()
    errors = capsys.readouterr().err
    assert errors.startswith("reput: warning: kernels are compiled anew at each start: no folder ")
    assert all(f"{places}/{name}" in errors for name in ("named", "home", "tmp"))
    tell_of_first_run()
    assert capsys.readouterr().err == ""  # it is no first run: each one is


def test_the_first_run_says_that_it_compiles(places: Path, capsys) -> None:
    tell_of_first_run()
    assert capsys.readouterr().err == (
        "reput: compiling kernels, once for this version (some 20 s)\n"
    )
    assert os.listdir(places / "named") == ["kernels"]
