"""Whether a group pulls or pops a topic: what was set, and PULL where nothing was."""

import pytest

from reput.broker.serving import clients
from reput.broker.serving.clients import POP, PULL, RequestMode, RequestModes
from reput.broker.wire.codes import Refused


def test_a_group_pulls_unless_another_mode_was_set() -> None:
    modes = RequestModes()
    assert modes.of("T", "g") == RequestMode(PULL, 0)
    modes.put("T", "g", RequestMode(POP, 2))
    modes.put("T", "g", RequestMode(POP, 3))
    assert modes.of("T", "g") == (POP, 3)
    for topic, group in (("T", "h"), ("U", "g"), ("g", "T")):
        assert modes.of(topic, group).mode == PULL


def test_all_modes_are_told_by_topic_and_group() -> None:
    modes = RequestModes()
    assert modes.table() == {}
    for topic, group in (("T", "g"), ("T", "h"), ("U", "g")):
        modes.put(topic, group, RequestMode(POP, 1))
    table = modes.table()
    assert {topic: list(groups) for topic, groups in table.items()} == {"T": ["g", "h"], "U": ["g"]}
    assert table["T"]["h"] == {
        "consumerGroup": "h", "mode": "POP", "popShareQueueNum": 1, "topic": "T",
    }  # fmt: skip


def test_too_many_are_refused_and_known_ones_may_still_change(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(clients, "_MOST", 1)
    modes = RequestModes()
    modes.put("T", "g", RequestMode(POP))
    with pytest.raises(Refused):
        modes.put("T", "h", RequestMode(POP))
    modes.put("T", "g", RequestMode(PULL))
    assert modes.of("T", "g").mode == PULL
    assert modes.of("T", "h").mode == PULL
