"""What commands share: whose settings win, who is asked before a change, in which form is shown."""

import argparse
import io
import json
from contextlib import nullcontext, suppress
from pathlib import Path

import pytest

from reput.jobs.console import options
from reput.jobs.console.declared import OfService
from reput.store_format.faults import StoreError
from reput.store_format.release.settings import SettingError


@pytest.mark.parametrize("named", ["5.3", "v5.3.3", "4.1.0"])
def test_a_service_asks_before_a_change_and_looks_for_no_store(named: str, monkeypatch) -> None:
    parser = argparse.ArgumentParser()
    options.add_service(parser, OfService, "")
    words = ["nowhere", "--dry-run", "--rocketmq", named]
    given = options.asked_of(parser.parse_args(words), OfService)
    assert (given.rocketmq, given.settings, given.dry_run) == (named, {}, True)
    monkeypatch.setattr("sys.stdin", io.StringIO())
    with pytest.raises(StoreError, match="would deliver; nothing was done"):
        given.confirm("deliver")
    options.asked_of(parser.parse_args([*words, "--yes"]), OfService).confirm("deliver")


class Terminal(io.StringIO):
    """Somebody who has typed this."""

    def isatty(self) -> bool:
        return True


def test_only_a_yes_lets_the_change_be_made(monkeypatch, capsys) -> None:
    for typed in ("y\n", "yes\n", " Y \n", "YES", "", "\n", "n\n", "yep\n", "y es\n"):
        monkeypatch.setattr("sys.stdin", Terminal(typed))
        yes = typed.strip().lower() in ("y", "yes")
        with nullcontext() if yes else pytest.raises(StoreError, match=r"^nothing was done$"):
            options.consent(False)("remove /a")
        assert capsys.readouterr() == ("", "reput: remove /a? [y/N] ")
    options.consent(True)("remove /a")  # with --yes nobody is asked
    assert capsys.readouterr() == ("", "")


def test_json_is_one_line_whatever_its_texts_hold_and_a_bad_report_ends_with_1(capsys) -> None:
    class Report:
        as_json = text = details = staticmethod(dict)

    options.show(argparse.Namespace(format="json", json=True), {"a": "x\ny\udc80"}, "")
    out = capsys.readouterr().out
    assert (out.count("\n"), json.loads(out)) == (1, {"a": "x\ny\udc80"})
    for good, code in ((True, 0), (False, 1)):
        assert options.answer(argparse.Namespace(json=True), Report(), good) == code


def test_the_words_for_another_command_are_those_given() -> None:
    given = argparse.Namespace(rocketmq=None, broker_conf=None, assignments=[])
    assert options.given_words(given) == ""
    given = argparse.Namespace(rocketmq="5.3.3", broker_conf="a b", assignments=["x=1", "y=2 3"])
    words = " --rocketmq 5.3.3 --broker-conf 'a b' --set x=1 --set 'y=2 3'"
    assert options.given_words(given) == words


def test_an_address_is_a_host_and_a_port_behind_the_last_colon() -> None:
    for text, address in [
        ("broker:10911", ("broker", 10911)), ("10.0.0.1:0", ("10.0.0.1", 0)),
        ("[::1]:65535", ("::1", 65535)), ("::1:80", ("::1", 80)),
    ]:  # fmt: skip
        assert options.host_port("--bind", text) == address
    for text in ("", "broker", ":80", "broker:", "broker:65536", "broker:-1", "broker:٣", "b: 80"):
        with pytest.raises(SettingError, match=r"--bind .* is not an address: HOST:PORT"):
            options.host_port("--bind", text)
    with pytest.raises(SettingError):
        options.host_port("--master", "broker:0", least=1)
    assert options.host_port("--master", "broker:1", least=1) == ("broker", 1)


# --- A file that an option names: new, in a folder that is there, and in no store.
def named(tmp_path: Path, ranges: str) -> argparse.Namespace:
    (tmp_path / "store" / "commitlog").mkdir(parents=True)
    return argparse.Namespace(store=str(tmp_path / "store"), ranges=str(tmp_path / ranges))


def test_the_file_has_what_the_job_wrote_and_none_is_left_of_one_that_fails(tmp_path) -> None:
    arguments = named(tmp_path, "ranges")
    with suppress(KeyboardInterrupt), options.new_ranges(arguments, {}) as output:
        assert output is not None
        output.write(b"{}\n")
        raise KeyboardInterrupt
    assert not (tmp_path / "ranges").exists()
    with options.new_ranges(arguments, {}) as output:
        assert output is not None
        output.write(b"{}\n")
    assert (tmp_path / "ranges").read_bytes() == b"{}\n"
    for arguments.ranges in (None, ""):
        assert options.new_file(arguments, "ranges", {}) is None
        with options.new_ranges(arguments, {}) as output:
            assert output is None
