"""Committed offsets beside a store: what the file says goes before what the store says."""

from pathlib import Path

import pytest

from reput.jobs.sockets.access import OffsetsFile
from reput.store_format.discover.config import Offsets
from reput.store_format.faults import StoreError
from reput.store_format.notes import Notes

STORE: Offsets = {("g", "T"): {0: 7, 1: 8}, ("g", "U"): {0: 1}}


def over(path: Path, content: str, notes: Notes | None = None) -> Offsets:
    path.write_text(content)
    return OffsetsFile(str(path), ()).over(STORE, notes or Notes())


def test_without_the_file_a_group_is_where_the_store_has_it(tmp_path: Path) -> None:
    file = OffsetsFile(str(tmp_path / "no.json"), ())
    assert file.over(STORE, Notes()) == STORE
    assert not (tmp_path / "no.json").exists()


@pytest.mark.parametrize(
    "table",
    ['{"T@g":{"1":3,"2":4}}', '{"T@g":{1:3,2:4}}', ' {"T@g":\n\t{1:3,\n2:4}}'],
)
def test_a_queue_in_the_file_goes_before_the_same_one_in_the_store(tmp_path, table: str) -> None:
    """A broker writes queue ids without quotes."""
    found = over(tmp_path / "o", f'{{"offsetTable":{table}}}')
    assert found == {("g", "T"): {0: 7, 1: 3, 2: 4}, ("g", "U"): {0: 1}}
    assert STORE["g", "T"] == {0: 7, 1: 8}


def test_a_group_that_only_one_of_them_knows_stays(tmp_path: Path) -> None:
    assert over(tmp_path / "o", '{"offsetTable":{"V@h":{"0":0}}}') == {**STORE, ("h", "V"): {0: 0}}
    assert over(tmp_path / "o", '{"offsetTable":{}}') == STORE


@pytest.mark.parametrize(
    "rest", ["", "{}", "null}", "[1]}", "7}", '{"T@g":{"0":1}', "{" + '"a":{' * 100_000]
)
def test_a_file_that_was_cut_or_changed_is_refused_and_stays(tmp_path: Path, rest: str) -> None:
    content = '{"offsetTable":' + rest
    with pytest.raises(StoreError, match=r"o: has no offsetTable; it is left as it is"):
        over(tmp_path / "o", content)
    assert (tmp_path / "o").read_text() == content


@pytest.mark.parametrize("content", ["", "{", '{ "offsetTable":{}}', '{"dataVersion":{}}', "\n"])
def test_a_file_of_another_kind_is_nobodys_to_replace(tmp_path: Path, content: str) -> None:
    (tmp_path / "o").write_text(content)
    with pytest.raises(StoreError, match="is none that this command wrote, and stays"):
        OffsetsFile(str(tmp_path / "o"), ())


def test_offsets_that_are_none_are_noted_and_left_out(tmp_path: Path) -> None:
    notes = Notes()
    assert over(tmp_path / "o", '{"offsetTable":{"T@g":[],"nogroup":{"0":1}}}', notes) == STORE
    assert len(notes.lines) == 1
