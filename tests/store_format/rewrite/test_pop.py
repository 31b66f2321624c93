"""Pop's retry topics, and what a queue that is popped in order holds."""

from typing import Any

import pytest

from reput.store_format.rewrite.changes import Changes, Decision, Fate, moved_order, retried_topics

LEFT_OUT, TAKEN, FOLLOWS = Fate
V1, V2 = "%RETRY%g_Orders", "%RETRY%g+Orders"


@pytest.mark.parametrize(("name", "topics", "groups", "consumed", "topic"), [
    (V1, {"Orders"}, {"g"}, [], "Orders"), (V1, {"Orders"}, set(), [], "Orders"),
    (V2, set(), set(), [], "Orders"),
    (V1, {"Orders"}, {"g_Orders"}, [], None),  # a group's own retries
    (V1, {"Orders"}, {"g", "g_Orders"}, [], None),
    (V1, {"Orders"}, {"g", "g_Orders"}, [("g", V1)], "Orders"), (V1, {"Other"}, {"g"}, [], None),
    (V1, {"Other"}, {"g"}, [("g_Orders", V1)], None),
    ("%RETRY%a_b_C", {"C", "b_C"}, {"a", "a_b"}, [], "b_C"),
    ("%RETRY%a_b_C", {"C", "b_C"}, {"a_b"}, [], "C"),
    ("%RETRY%a_b_C", {"C", "b_C"}, {"a", "a_b"}, [("a_b", "%RETRY%a_b_C")], "C"),
    ("%RETRY%g", {"g"}, {"g"}, [], None), ("%DLQ%g_Orders", {"Orders"}, {"g"}, [], None),
])  # fmt: skip
def test_the_topic_of_pop_s_retries(name, topics, groups, consumed, topic) -> None:
    assert dict(retried_topics([name, "Orders"], topics, groups, consumed)).get(name) == topic


@pytest.mark.parametrize("retry", [V1, V2])
def test_pop_s_retries_go_with_their_topic(retry: str) -> None:
    for changes, fate in (
        (Changes(topics=("Orders",)), TAKEN), (Changes(topics=("B",)), LEFT_OUT),
        (Changes(dropped=("Orders",)), LEFT_OUT), (Changes(dropped=("B",)), TAKEN),
        (Changes(merges=True), TAKEN),
    ):  # fmt: skip
        known = Changes(**{**_fields(changes), "retries": ((retry, "Orders"),)})
        assert known.of_queue(retry) == Decision(FOLLOWS, retried=fate)
        assert known.of_name(retry) == Decision(fate)
    renamed = Changes(renames=(("Orders", "New"),), retries=((retry, "Orders"),))
    assert renamed.of_queue(retry) == Decision(TAKEN, retry.replace("Orders", "New"), retried=TAKEN)
    assert renamed.renamed(retry) == retry.replace("Orders", "New")


def _fields(changes: Changes) -> dict[str, Any]:
    return {name: value for name, value in vars(changes).items() if not name.startswith("_")}


def test_an_order_info_keeps_what_was_acknowledged_of_each_message() -> None:
    info = {
        "popTime": 5, "i": 9, "o": [10, 1, 2, 5], "cm": 0b0110, "ot": {"12": 77, "15": 78},
        "oc": {"11": 3},
    }  # fmt: skip
    new = {10: 40, 11: None, 12: 20, 15: 21}
    assert moved_order(info, new.__getitem__) == {
        "popTime": 5, "i": 9, "o": [20, 1, 20], "cm": 0b001, "ot": {"20": 77, "21": 78}, "oc": {},
    }  # fmt: skip
    assert moved_order(info, lambda _: None) is None
    assert moved_order({"o": [7]}, lambda offset: offset + 1) == {"o": [8], "cm": 0}
