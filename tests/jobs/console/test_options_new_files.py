"""A file that an option names: new, in a folder that is there, and in no store."""

import argparse
from pathlib import Path
from typing import BinaryIO

import pytest

from reput.jobs.console.options import new_file, new_ranges
from reput.store_format.faults import StoreError


def named(tmp_path: Path, ranges: str | None) -> argparse.Namespace:
    (tmp_path / "store" / "commitlog").mkdir(parents=True)
    parser = argparse.ArgumentParser()
    parser.add_argument("--ranges")
    words = [] if ranges is None else ["--ranges", str(tmp_path / ranges)]
    return argparse.Namespace(store=str(tmp_path / "store"), **vars(parser.parse_args(words)))


@pytest.mark.parametrize("ranges", [None, ""])
def test_without_the_option_there_is_no_file(ranges: str | None, tmp_path: Path) -> None:
    arguments = named(tmp_path, None)
    arguments.ranges = ranges
    assert new_file(arguments, "ranges", {}) is None
    with new_ranges(arguments, {}) as output:
        assert output is None


def written(output: BinaryIO | None) -> None:
    assert output is not None
    output.write(b"{}\n")


def test_the_file_has_what_the_job_wrote(tmp_path: Path) -> None:
    with new_ranges(named(tmp_path, "ranges"), {}) as output:
        written(output)
    assert (tmp_path / "ranges").read_bytes() == b"{}\n"


def test_of_a_job_that_fails_no_file_is_left(tmp_path: Path) -> None:
    def fails() -> None:
        with new_ranges(named(tmp_path, "ranges"), {}) as output:
            written(output)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fails()
    assert not (tmp_path / "ranges").exists()


def test_a_file_that_may_not_be_is_named_with_its_option_before_the_job(tmp_path: Path) -> None:
    arguments = named(tmp_path, "ranges")
    (tmp_path / "ranges").symlink_to("nowhere")
    with pytest.raises(StoreError, match=rf"^--ranges {tmp_path}/ranges: is there already"):
        new_file(arguments, "ranges", {})
    arguments.ranges = str(tmp_path / "none" / "ranges")
    with pytest.raises(StoreError, match=rf"^--ranges {tmp_path}/none: no such folder"):
        new_file(arguments, "ranges", {})


@pytest.mark.parametrize("inside", ["store/ranges", "store/commitlog/ranges", "elsewhere/ranges"])
def test_no_file_is_made_in_a_store(inside: str, tmp_path: Path) -> None:
    arguments = named(tmp_path, inside)
    (tmp_path / "elsewhere").mkdir()
    settings = {"storePathCommitLog": str(tmp_path / "elsewhere")}
    with pytest.raises(StoreError, match=r"^--ranges "):
        new_file(arguments, "ranges", settings)
    assert not (tmp_path / inside).exists()
