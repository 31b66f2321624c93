"""What commands share: whose settings win, who is asked before a change, in which form is shown."""

import argparse
import io
import json
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import Any

import pytest

from reput.jobs.console import voice
from reput.jobs.console.declared import OfService, OfStore
from reput.jobs.console.options import (
    ANY_DAMAGE,
    add_service,
    add_store,
    answer,
    asked_of,
    consent,
    given_words,
    host_port,
    new_file,
    new_ranges,
    setting_layers,
    show,
)
from reput.store_format.faults import StoreError
from reput.store_format.release.profiles import UnknownRelease
from reput.store_format.release.settings import SettingError


def parsed(store: Path, *words: str, **options: Any) -> argparse.Namespace:
    parser = argparse.ArgumentParser(exit_on_error=False)
    add_store(parser, **{"on_damage": ANY_DAMAGE} | options)
    return parser.parse_args([str(store), *words])


@pytest.fixture
def store(tmp_path: Path) -> Path:
    (tmp_path / "store" / "commitlog").mkdir(parents=True)
    return tmp_path / "store"


def test_set_wins_over_the_broker_s_file_and_no_check_crc_over_a_setting(store) -> None:
    (store.parent / "broker.conf").write_text("maxIndexNum=1\nmaxHashSlotNum=2\nbrokerName=b\n")
    arguments = parsed(
        store, "--set", "maxIndexNum=5", "--broker-conf", str(store.parent / "broker.conf"),
        "--set", "maxIndexNum=7",
    )  # fmt: skip
    assert len(setting_layers(arguments)) == 2
    settings = asked_of(arguments, OfStore).settings
    assert (settings["maxIndexNum"], settings["maxHashSlotNum"]) == ("7", "2")
    words = ("--set", "checkCRCOnRecover=true", "--no-check-crc")
    assert asked_of(parsed(store, *words), OfStore).settings["checkCRCOnRecover"] == "false"
    assert asked_of(parsed(store, *words[:2]), OfStore).settings["checkCRCOnRecover"] == "true"
    assert parsed(store, "--on-damage", "salvage").on_damage == "salvage"
    assert parsed(store).on_damage is None
    with pytest.raises(argparse.ArgumentError, match="salvage"):
        parsed(store, "--on-damage", "salvage", on_damage=("refuse", "truncate"))
    assert not hasattr(parsed(store, on_damage=()), "no_check_crc")
    nowhere = store / "none" / "such"
    with pytest.raises(UnknownRelease):
        asked_of(parsed(nowhere, "--rocketmq", "9.9"), OfStore)
    with pytest.raises(SettingError):
        asked_of(parsed(nowhere, "--set", "maxIndexNum"), OfStore)
    with pytest.raises(StoreError, match="no such folder"):
        asked_of(parsed(nowhere), OfStore)


@pytest.mark.parametrize("named", ["5.3", "v5.3.3", "4.1.0"])
def test_a_service_asks_before_a_change_and_looks_for_no_store(named: str, monkeypatch) -> None:
    parser = argparse.ArgumentParser()
    add_service(parser, OfService, "")
    words = ["nowhere", "--dry-run", "--rocketmq", named]
    given = asked_of(parser.parse_args(words), OfService)
    assert (given.rocketmq, given.settings, given.dry_run) == (named, {}, True)
    monkeypatch.setattr("sys.stdin", io.StringIO())
    with pytest.raises(StoreError, match="would deliver; nothing was done"):
        given.confirm("deliver")
    asked_of(parser.parse_args([*words, "--yes"]), OfService).confirm("deliver")


class Terminal(io.StringIO):
    """Somebody who has typed this."""

    def isatty(self) -> bool:
        return True


def test_only_a_yes_lets_the_change_be_made(monkeypatch, capsys) -> None:
    for typed in ("y\n", "yes\n", " Y \n", "YES", "", "\n", "n\n", "yep\n", "y es\n"):
        monkeypatch.setattr("sys.stdin", Terminal(typed))
        yes = typed.strip().lower() in ("y", "yes")
        with nullcontext() if yes else pytest.raises(StoreError, match=r"^nothing was done$"):
            consent(False)("remove /a")
        assert capsys.readouterr() == ("", "reput: remove /a? [y/N] ")
    consent(True)("remove /a")  # with --yes nobody is asked
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize(("form", "quiet", "verbose", "out"), [
    ("table", False, False, "done\n"), ("table", False, True, "done\nmore\n"),
    ("table", True, False, ""), ("json", True, False, '{"same": true, "files": [1]}\n'),
    ("csv", True, True, "same,files\ntrue,[1]\n"),
])  # fmt: skip
def test_a_result_is_shown_in_the_form_that_was_asked_for(
    form: str, quiet: bool, verbose: bool, out: str, capsys: pytest.CaptureFixture[str]
) -> None:
    voice.begin(quiet, verbose)
    arguments = argparse.Namespace(format=form, json=form == "json")
    show(arguments, {"same": True, "files": [1]}, "done", ["more"])
    assert capsys.readouterr() == (out, "")


def test_json_is_one_line_whatever_its_texts_hold_and_a_bad_report_ends_with_1(capsys) -> None:
    class Report:
        as_json = text = details = staticmethod(dict)

    show(argparse.Namespace(format="json", json=True), {"a": "x\ny\udc80"}, "")
    out = capsys.readouterr().out
    assert (out.count("\n"), json.loads(out)) == (1, {"a": "x\ny\udc80"})
    for good, code in ((True, 0), (False, 1)):
        assert answer(argparse.Namespace(json=True), Report(), good) == code


def test_the_words_for_another_command_are_those_given() -> None:
    given = argparse.Namespace(rocketmq=None, broker_conf=None, assignments=[])
    assert given_words(given) == ""
    given = argparse.Namespace(rocketmq="5.3.3", broker_conf="a b", assignments=["x=1", "y=2 3"])
    assert given_words(given) == " --rocketmq 5.3.3 --broker-conf 'a b' --set x=1 --set 'y=2 3'"


def test_an_address_is_a_host_and_a_port_behind_the_last_colon() -> None:
    for text, address in [
        ("broker:10911", ("broker", 10911)), ("10.0.0.1:0", ("10.0.0.1", 0)),
        ("[::1]:65535", ("::1", 65535)), ("::1:80", ("::1", 80)),
    ]:  # fmt: skip
        assert host_port("--bind", text) == address
    for text in ("", "broker", ":80", "broker:", "broker:65536", "broker:-1", "broker:٣", "b: 80"):
        with pytest.raises(SettingError, match=r"--bind .* is not an address: HOST:PORT"):
            host_port("--bind", text)
    with pytest.raises(SettingError):
        host_port("--master", "broker:0", least=1)
    assert host_port("--master", "broker:1", least=1) == ("broker", 1)


# --- A file that an option names: new, in a folder that is there, and in no store.
def named(tmp_path: Path, ranges: str) -> argparse.Namespace:
    (tmp_path / "store" / "commitlog").mkdir(parents=True)
    return argparse.Namespace(store=str(tmp_path / "store"), ranges=str(tmp_path / ranges))


def test_the_file_has_what_the_job_wrote_and_none_is_left_of_one_that_fails(tmp_path) -> None:
    arguments = named(tmp_path, "ranges")
    with suppress(KeyboardInterrupt), new_ranges(arguments, {}) as output:
        assert output is not None
        output.write(b"{}\n")
        raise KeyboardInterrupt
    assert not (tmp_path / "ranges").exists()
    with new_ranges(arguments, {}) as output:
        assert output is not None
        output.write(b"{}\n")
    assert (tmp_path / "ranges").read_bytes() == b"{}\n"
    for arguments.ranges in (None, ""):
        assert new_file(arguments, "ranges", {}) is None
        with new_ranges(arguments, {}) as output:
            assert output is None


def test_a_file_that_may_not_be_is_named_with_its_option_before_the_job(tmp_path: Path) -> None:
    arguments = named(tmp_path, "ranges")
    (tmp_path / "ranges").symlink_to("nowhere")
    (tmp_path / "elsewhere").mkdir()
    settings = {"storePathCommitLog": str(tmp_path / "elsewhere")}
    for path, why in [
        ("ranges", "/ranges: is there already"), ("none/ranges", "/none: no such folder"),
        ("store/ranges", ""), ("store/commitlog/ranges", ""), ("elsewhere/ranges", ""),
    ]:  # fmt: skip
        arguments.ranges = str(tmp_path / path)
        with pytest.raises(StoreError, match=rf"^--ranges {tmp_path}{why}"):
            new_file(arguments, "ranges", settings)
        assert not (tmp_path / path).exists()
