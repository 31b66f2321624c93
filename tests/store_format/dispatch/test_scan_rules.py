"""Eras and messages that were indexed twice, as a scan knows of them."""

from dataclasses import replace

import pytest

from reput.store_format.dispatch import scan as scan_module
from reput.store_format.dispatch.scan import scan_rules
from reput.store_format.release.profiles import Era, profile
from reput.store_format.release.settings import Settings
from tests.store_format.dispatch import scanned
from tests.store_format.dispatch.scanned import log_of, outcome


def puts_by(
    monkeypatch: pytest.MonkeyPatch, segment: bytes, **rules: object
) -> list[tuple[int, int]]:
    """(physical offset, key hash) of all puts, by further rules of a scan."""
    made = replace(scan_rules(profile("5.3.3"), Settings(), ()), **rules)  # type: ignore[arg-type]
    monkeypatch.setattr(scanned, "scan_rules", lambda *_: made)
    puts, *_ = outcome(segment, scan_module.QUEUE_PUTS)
    return [(put[0], put[2]) for put in puts]


def places_of(puts: list[tuple[int, int]]) -> list[int]:
    return sorted({place for place, _ in puts})


@pytest.mark.parametrize("held", [1, 2, 4, 8, 10])
def test_a_message_indexed_again_has_its_first_keys_before_all_of_them(
    held: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    segment = log_of(50)
    once = puts_by(monkeypatch, segment)
    several = [p for p in places_of(once) if sum(place == p for place, _ in once) == 4]
    again = puts_by(monkeypatch, segment, again=((several[2], held), (several[5], held)))
    wanted = []
    for place in places_of(once):
        keys = [put for put in once if put[0] == place]
        more = held if place in (several[2], several[5]) else 0
        wanted += keys[: more % 4] + keys * (more // 4) + keys
    assert again == wanted


def test_each_record_is_dispatched_by_its_own_release(monkeypatch: pytest.MonkeyPatch) -> None:
    segment = log_of(50)
    every = puts_by(monkeypatch, segment)
    border = places_of(every)[20]
    eras = (Era(0, "5.3.3", ("5.3.3",)), Era(border, "5.3.3", ("5.3.3",)))
    rules = scan_rules(profile("5.3.3"), Settings(), (), eras)
    ((stop, older),) = rules.older
    assert (stop, older) == (border, rules.dispatch)
    unindexed = ((border, older._replace(index=False)),)
    assert puts_by(monkeypatch, segment, older=unindexed) == [p for p in every if p[0] >= border]


def test_more_than_the_buffers_hold_is_given_on(monkeypatch: pytest.MonkeyPatch) -> None:
    segment = log_of(50)
    once = puts_by(monkeypatch, segment)
    place = next(p for p in places_of(once) if sum(place == p for place, _ in once) == 4)
    held = 4 * scan_module.INDEX_PUTS
    again = puts_by(monkeypatch, segment, again=((place, held),))
    assert len(again) == len(once) + held
