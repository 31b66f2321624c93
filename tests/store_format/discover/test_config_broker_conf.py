"""Finds a broker's configuration: the store's own, or one beside it that names the store."""

from pathlib import Path

import pytest

from reput.store_format.discover.config import found_conf
from reput.store_format.files.folder import Folder
from reput.store_format.files.local import LocalStorage
from reput.store_format.release.setting_table import SettingError
from tests.memory_storage import MemoryStorage

INDEX, SEGMENT = "messageIndexEnable", "mappedFileSizeCommitLog"
OFF = f"{INDEX}=false\n"


def in_store(**files: str) -> MemoryStorage:
    return MemoryStorage({f"store/{path}": text.encode("latin-1") for path, text in files.items()})


def beside(tmp_path: Path, name: str, text: str) -> str:
    """A store, and a file with this path beside it."""
    store = tmp_path / "store"
    store.mkdir()
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_text(text)
    return str(store)


PLACES = ["config/broker.properties", "broker.conf", "config/broker.conf", "conf/broker.conf"]


@pytest.mark.parametrize("first", range(len(PLACES)))
def test_a_broker_itself_reads_config_broker_properties_so_it_comes_first(first: int) -> None:
    found = found_conf(Folder(in_store(**dict.fromkeys(PLACES[first:], OFF)), "store"))
    assert found == (f"store/{PLACES[first]}", {INDEX: "false"}, [])


def test_without_a_file_there_is_none() -> None:
    assert (
        found_conf(Folder(in_store(**{"notes.conf": OFF, "broker.conf/x": OFF}), "store")) is None
    )
    assert found_conf(Folder(MemoryStorage(), "store")) is None


@pytest.mark.parametrize(("more", "found"), [(0, True), (1, False)])
def test_a_file_of_more_than_a_mebibyte_is_none(more: int, found: bool) -> None:
    text = OFF.ljust((1 << 20) + more, "#")
    assert bool(found_conf(Folder(in_store(**{"broker.conf": text}), "store"))) is found


def test_paths_and_what_is_no_known_setting_are_left_out() -> None:
    text = f"storePathRootDir=/there\nstorePathCommitLog=/a\nbrokerNom=b\nx=1\n{OFF}"
    found = found_conf(Folder(in_store(**{"broker.conf": text}), "store"))
    assert found is not None
    said = "'brokerNom' (brokerName?), 'x': no settings of RocketMQ's, which it passes over"
    assert (found.settings, found.warnings) == ({INDEX: "false"}, [f"store/broker.conf: {said}"])


@pytest.mark.parametrize(
    ("named", "segment", "said"),
    [
        ("/a", "/a", True),
        ("store/commitlog,/a/", "/a", True),
        ("/a", "/b", False),  # a path of the machine that the store came from
        ("./store/commitlog/", "store/commitlog", False),
    ],
)
def test_segments_where_its_paths_lead_are_named(named: str, segment: str, said: bool) -> None:
    storage = in_store(**{"broker.conf": f"storePathCommitLog={named}\n{OFF}"})
    storage.files[f"{segment}/{0:020d}"] = b"x"
    found = found_conf(Folder(storage, "store"))
    assert found is not None
    line = f"store/broker.conf: {segment} has segments, which are not read; --set storePath"
    assert [each.startswith(line) for each in found.warnings] == [True] * said


def test_a_value_that_is_none_is_not_obeyed_and_said() -> None:
    found = found_conf(Folder(in_store(**{"broker.conf": f"{SEGMENT}=1g\n{OFF}"}), "store"))
    assert found is not None
    assert found.settings == {INDEX: "false"}
    (warning,) = found.warnings
    assert warning.startswith("store/broker.conf: ")
    assert SEGMENT in warning


def test_two_spellings_of_a_setting_that_differ_are_refused_with_the_files_name() -> None:
    text = f"{SEGMENT}=4096\nmapedFileSizeCommitLog=8192\n"
    with pytest.raises(SettingError, match=r"^store/broker\.conf: "):
        found_conf(Folder(in_store(**{"broker.conf": text}), "store"))


@pytest.mark.parametrize("name", ["broker.conf", "conf/broker.conf"])
@pytest.mark.parametrize(
    ("root", "found"),
    [("{}", True), ("{}/", True), ("{}/../store", True), ("{}/config", False), (None, False)],
)
def test_beside_a_store_it_has_to_name_the_store(
    root: str | None, found: bool, name: str, tmp_path: Path
) -> None:
    named = "" if root is None else f"storePathRootDir={root.format(tmp_path / 'store')}\n"
    store = beside(tmp_path, name, named + OFF)
    assert bool(found_conf(Folder(LocalStorage(), store))) is found


def test_the_store_may_be_named_by_a_link(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "store")
    store = beside(tmp_path, "broker.conf", f"storePathRootDir={tmp_path}/link\n{OFF}")
    assert found_conf(Folder(LocalStorage(), store)) is not None
