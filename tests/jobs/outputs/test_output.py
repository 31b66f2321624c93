"""Where a command may write: never into an input, and only over a set or a file of its own."""

import json
from pathlib import Path

import pytest

from reput.jobs.outputs.output import (
    REBUILT,
    NewFile,
    Output,
    OverlapsInput,
    WholeFile,
    inputs_of,
    refuse_overlap,
)
from reput.store_format.faults import StoreError
from reput.store_format.files.folder import Place
from reput.store_format.files.local import LocalStorage

EMPTY_SET = json.dumps({"format": "reput-manifest-1", "files": []})


@pytest.fixture
def store(tmp_path: Path) -> Path:
    (tmp_path / "store" / "commitlog").mkdir(parents=True)
    return tmp_path / "store"


def inputs(store: Path, **settings: str) -> tuple[Place, ...]:
    return tuple(inputs_of(Place(LocalStorage(), str(store)), settings))


def test_the_paths_of_settings_and_of_a_group_are_inputs(store: Path) -> None:
    (store / "dledger-n0").mkdir()
    there = inputs(store, storePathCommitLog="/a, /b", readOnlyCommitLogStorePaths="/c",
                   brokerName="/d")  # fmt: skip
    paths = {each.path for each in there}
    assert {"/a", "/b", "/c", f"{store}/dledger-n0/data", str(store)} <= paths
    assert not {"/d", ""} & paths


@pytest.mark.parametrize(
    ("path", "refused"),
    [
        ("store", True),
        ("store/commitlog/new", True),
        (".", True),
        ("link", True),
        ("store2", False),
        ("other/set", False),
    ],
)
def test_nothing_is_written_to_around_or_into_an_input(
    store: Path, path: str, refused: bool
) -> None:
    (store.parent / "link").symlink_to(store / "commitlog")
    asked = str(store.parent / path)
    if refused:
        with pytest.raises(OverlapsInput, match="nothing is written there"):
            refuse_overlap(Place(LocalStorage(), asked), inputs(store))
    else:
        refuse_overlap(Place(LocalStorage(), asked), inputs(store))


@pytest.mark.parametrize(
    ("files", "replace", "wrong"),
    [
        ({}, False, None),
        ({"manifest.json": EMPTY_SET}, True, None),
        ({"manifest.json": EMPTY_SET}, False, "--replace puts the new set"),
        ({"notes.txt": ""}, False, "give another folder"),
        ({"notes.txt": ""}, True, "is not empty, and has no manifest.json"),
        ({"manifest.json": EMPTY_SET, "notes.txt": ""}, True, "is not in its manifest"),
    ],
)
def test_only_a_set_is_replaced_and_only_where_it_is_asked_for(
    tmp_path: Path, store: Path, files: dict[str, str], replace: bool, wrong: str | None
) -> None:
    folder = tmp_path / "out"
    folder.mkdir()
    for name, text in files.items():
        (folder / name).write_text(text)
    output = Output(LocalStorage(), str(folder), REBUILT, replace, inputs(store))
    if wrong is None:
        output.check()
    else:
        with pytest.raises(StoreError, match=wrong):
            output.check()


def test_a_file_in_the_folder_s_place_is_no_set(tmp_path: Path, store: Path) -> None:
    (tmp_path / "out").write_text("")
    output = Output(LocalStorage(), str(tmp_path / "out"), REBUILT, True, inputs(store))
    with pytest.raises(StoreError, match="is not a folder"):
        output.check()


def test_a_new_file_takes_nobody_s_place_and_goes_if_its_writing_fails(
    tmp_path: Path, store: Path
) -> None:
    new = NewFile(str(tmp_path / "new"), inputs(store))
    with pytest.raises(ZeroDivisionError), new.writing() as file:
        file.write(bytes(1 // 0))
    assert not (tmp_path / "new").exists()
    new.write(b"text")
    with pytest.raises(StoreError, match="is there already, and stays"):
        new.write(b"other")
    assert (tmp_path / "new").read_bytes() == b"text"
    (tmp_path / "dangling").symlink_to(tmp_path / "nowhere")
    for path, why in (("dangling", "is there already"), ("no/new", "no such folder")):
        with pytest.raises(StoreError, match=why):
            NewFile(str(tmp_path / path), ()).check()


@pytest.mark.parametrize(
    ("there", "replace", "wrong"),
    [
        (b"%PDF old", True, None),
        (b"%PDF old", False, "is there already"),
        (b"%PD", True, "none that this command wrote"),
        (None, True, "is a link"),
    ],
)
def test_a_whole_file_takes_the_place_of_one_of_its_kind(
    tmp_path: Path, there: bytes | None, replace: bool, wrong: str | None
) -> None:
    path = tmp_path / "page"
    if there is None:
        path.symlink_to(tmp_path / "elsewhere")
        (tmp_path / "elsewhere").write_bytes(b"%PDF")
    else:
        path.write_bytes(there)
    whole = WholeFile(str(path), (), b"%PDF", replace)
    if wrong is None:
        with pytest.raises(ZeroDivisionError), whole.writing() as file:
            file.write(bytes(1 // 0))
        assert path.read_bytes() == there
        whole.write(b"%PDF new")
        assert path.read_bytes() == b"%PDF new"
    else:
        with pytest.raises(StoreError, match=wrong):
            whole.write(b"%PDF new")
        assert path.read_bytes() == (there or b"%PDF")
    assert not list(tmp_path.glob(".*.part"))
