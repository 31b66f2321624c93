# ruff: noqa: E501 - a line of source is quoted whole
"""Planted bugs in POP, in assignments and in what is in flight; tests/mutants.py has them."""

from tests.planting import Bug, only

_STATE, _ORDER = "broker/pop/in_flight.py", "broker/pop/order.py"
_POP, _ACKS, _CHECKS = (f"broker/serving/pop{part}.py" for part in ("", "_acks", "_checks"))
_LISTED = "store_format/query/pop_leftovers.py"
_POPS = ("tests/jobs/serve/test_pop.py",)
_ATTACKS = "tests/jobs/serve/test_pop_attacks.py"
_WAITS = ("tests/jobs/serve/test_waiting_pops.py",)
_OFFLINE = ("tests/store_format/query/test_pop_leftovers.py",)
_KEPT = only("tests/jobs/serve/test_access.py", "popped")

BUGS = (
    Bug("a handle's revive queue is an int of Java's", "broker/pop/handles.py::parse_handle",
        "parse_integer(parts[3], 32)", "int(parts[3])", ("tests/broker/pop/test_handles.py",)),
    Bug("an infinite number in a row of popped messages is a wrong row", "broker/pop/kept.py",
        "IndexError, OverflowError)", "IndexError)", ("tests/broker/pop/test_kept.py",)),
    Bug("a message that was popped is invisible to its group", _POP + "::_Pop._give",
        "offset if self.in_order else got.next)", "offset)", ("tests/broker/serving/test_pop.py", "-k", "names_each")),
    Bug("a handle whose time is over acknowledges nothing", _ACKS + "::_acknowledge",
        "(queue_id, handle.start, handle.pop_time), position", "next(((e.key, position) for *_, e in broker.in_flight.all()), ((0, 0, 0), 0))[0], position", _POPS),
    Bug("a message stays invisible for three days at most", _ACKS + "::change_time",
        "if invisible > _INVISIBLE_MOST:", "if False:", _POPS),
    Bug("a message comes again when its time is up, not before", _STATE + "::_Popped.look",
        "self.heap[0][0] <= now", "self.heap[0][0] < now", _POPS),
    Bug("what comes again is counted", _POP + "::_Pop.again",
        "found.times + 1\n", "found.times\n", _POPS),
    Bug("what is acknowledged leaves nothing behind", _STATE + "::InFlight._drop",
        "        popped.compact()\n", "", only("tests/broker/pop/test_in_flight.py", "heap")),
    Bug("a pop that does not say when it was sent is sent now", _CHECKS + "::born_time",
        'request.fields.get(_BORN, "0") == "0"', 'request.fields.get(_BORN) == "0"', only("tests/broker/serving/test_pop.py", "sent_now")),
    Bug("no two pops have one time", _STATE + "::InFlight.pop_time", "popped.last + 1 for", "popped.last for", _POPS),
    Bug("a group has so much in flight at most", _STATE + "::InFlight.has_room",
        "own < times * MOST_OF_GROUP and", "True and", _POPS),
    Bug("all groups together have so much in flight at most", _STATE + "::InFlight.has_room",
        " and self._count < times * MOST_POINTS", "", only(_ATTACKS, "groups_that_never")),
    Bug("a handle that was never given leaves nothing behind", _STATE + "::InFlight.settle",
        "popped = self._of.get((group, topic))", "popped = self._of.setdefault((group, topic), _Popped())", only(_ATTACKS, "many-groups")),
    Bug("what comes again needs no room", _STATE + "::InFlight.again",
        "or queue is None:", "or queue is None or not self.has_room(group, topic):", _POPS),
    Bug("parts of what was popped together are kept so much at most", _STATE + "::InFlight.again",
        "if len(some) < len(waiting) and", "if False and", _POPS),
    Bug("a queue in order waits for acknowledgements", _ORDER + "::Orders.blocked_until",
        "return until if now < until else None", "return None", _POPS),
    Bug("who asks again for an order gets it again", _ORDER + "::Orders.blocked_until",
        "(info.attempt is not None and info.attempt == attempt)", "False", _POPS),
    Bug("an old handle changes no order", _ORDER + "::Orders.commit",
        "if info.pop_time != pop_time:\n            return UNCHANGED", "if False:\n            return UNCHANGED", _POPS),
    Bug("an acknowledgement in order wakes who waits", _ACKS + "::_acknowledge",
        "        broker.woken.add((group, topic))\n    elif", "    elif", _WAITS),
    Bug("one that waits looks again when a message's time is up", "jobs/serve/waiting_pulls.py::HeldPulls._let_go",
        "hold.again < hold.until:", "False:", _WAITS),
    Bug("what is popped outlives the server", "broker/pop/kept.py::restore",
        "        point.left &= int(left)\n".replace("        ", "            "), "", _KEPT),
    Bug("a group that nobody knows commits nothing", "broker/serving/offset_requests.py::commit",
        "if not (known and is_group_name(group)):", "if not is_group_name(group):", only("tests/jobs/serve/test_groups.py", "nobody_has_heard")),
    Bug("a member that is not there gets no queue", "broker/serving/assignments.py::assigned",
        "    if member not in members:\n        return []\n", "    if member not in members:\n        return [queues[0]]\n", ("tests/broker/serving/test_assignments.py",)),
    Bug("a broker's own topics are there", "broker/serving/booted_topics.py::booted_topics",
        "        topic(broker, 1, _BOTH | _INHERIT),\n", "", ("tests/jobs/serve/test_groups.py",)),
    Bug("what the broker gave again is in flight no more", _LISTED + "::_of_check_points",
        "message.queue_offset <= at", "message.queue_offset < at", _OFFLINE),
    Bug("what was acknowledged is not in flight", _LISTED + "::_left",
        "and offset not in acknowledged:", ":", _OFFLINE),
    Bug("bits of a check point are acknowledgements", _LISTED + "::_left",
        "if not bits >> n & 1 and", "if", _OFFLINE),
)  # fmt: skip
