# ruff: noqa: E501 - a line of source is quoted whole
"""Planted bugs in what `reput serve` keeps of groups and in who may ask; tests/mutants.py has them."""

from tests.planting import Bug, only

_SERVING = "broker/serving/"
_CONSUMERS, _HEARTBEATS = _SERVING + "consumers.py", _SERVING + "heartbeats.py"
_OFFSETS, _ASKED = _SERVING + "group_offsets.py", _SERVING + "offset_requests.py"
_LOCKS = _SERVING + "queue_locks.py"
_CONNECTION, _PASSED = "jobs/serve/connection.py", _SERVING + "consumer_requests.py"
_TURNS, _PASSING = (
    ("tests/jobs/serve/test_connection.py",),
    ("tests/broker/serving/test_consumer_requests.py",),
)
_GROUPS = ("tests/jobs/serve/test_groups.py",)
_ACCESS = ("tests/jobs/serve/test_access.py",)
_HOSTILE = ("tests/jobs/serve/test_hostile_requests.py",)

BUGS = (
    Bug("a connection has one turn at a time", _CONNECTION + "::Connection._turn",
        "        if not self._turn_due:\n", "        if True:\n", _TURNS),
    Bug("one request is answered a turn", _CONNECTION + "::Connection",
        "            self._turn()\n\n    def _turn", "            self._take()\n\n    def _turn", _TURNS),
    Bug("a child ends with its parent", "jobs/serve/parent_watch.py::_watch",
        "    os.kill(os.getpid(), signal.SIGTERM)\n    time.sleep(_KILL_SECONDS)\n", "    time.sleep(60)\n", ("tests/jobs/serve/test_parent_watch.py",)),
    Bug("a server's rebuild ends with it", "jobs/serve/own_queues.py::_REPUT",
        "import end_with_parent; end_with_parent(); ", "import end_with_parent; ", only("tests/jobs/serve/test_own_queues.py", "killed_server")),
    Bug("a signature of the caller's does not go on to a consumer", _PASSED + "::_call",
        "{name: request.fields[name] for name in fields if name in request.fields}", "dict(request.fields)", _PASSING),
    Bug("the consumer that is named is asked", _PASSED + "::_connection_of", "if each.id == client)", "if each.id)", _PASSING),
    Bug("a client that does not answer is left out of a group's status", _PASSED + "::_ask_next",
        "if said is not None and said.code == ResponseCode.SUCCESS and said.body:", "if True:", _PASSING),
    Bug("a consumer that went is no more waited for", "jobs/serve/server.py::Server._closed",
        "        self._questions.forget(connection)\n", "", _PASSING),
    Bug("a pull is reported once where its group goes on", _OFFSETS + "::GroupOffsets.take_reset",
        "found = queues.pop(queue_id, None)", "found = queues.get(queue_id)", _PASSING),
    Bug("what was reset is not overwritten before it is reported", _ASKED + "::commit",
        "if broker.offsets.is_reset(group, topic, queue_id):", "if False:", _PASSING),
    Bug("a topic without queues cannot be reset", _SERVING + "offset_resets.py::_by_server",
        "    if not wanted:\n", "    if False:\n", ("tests/broker/serving/test_offset_resets.py",)),
    Bug("of all groups no pullOffset is told", _SERVING + "consume_stats.py::of_broker",
        "topic.write_queues, pulled=False)", "topic.write_queues)", ("tests/broker/serving/test_consume_stats.py",)),
    Bug("pullOffset is told from 5.1.0 on", _SERVING + "consume_stats.py::_progress",
        "        if broker.store.opened.profile.tells_pulled:\n", "        if True:\n", ("tests/broker/serving/test_consume_stats.py",)),
    Bug("a reset before 5.2.0 sets nobody forward unless forced", _SERVING + "offset_resets.py" + "::_by_clients",
        "to if forced or to < before else before", "to", _PASSING),
    Bug("messages that no queue has are named", "jobs/serve/open_served.py::_note_more",
        "    if first is not None:\n", "    if False:\n", only("tests/jobs/serve/test_open_served.py", "named_where")),
    Bug("of a broker that stopped cleanly nothing is reported", "jobs/serve/open_served.py::_note_more",
        "if not any(name == ABORT for", "if False and not any(name == ABORT for", only("tests/jobs/serve/test_open_served.py", "named_where")),
    Bug("a topic has no more queues than can be counted", _SERVING + "topics.py" + "::_queues",
        "return min(_int(value, _DEFAULT_QUEUES), _MOST_QUEUES)", "return _int(value, _DEFAULT_QUEUES)", _PASSING),
    Bug("a queue's lock is another's after a minute of silence", _LOCKS + "::_expired",
        "return now - lock.time > LIVE_MILLISECONDS", "return now - lock.time >= LIVE_MILLISECONDS", _GROUPS),
    Bug("a queue's lock is given back by its client alone", _LOCKS + "::QueueLocks.unlock",
        "if held is not None and held.client == client:", "if held is not None:", _GROUPS),
    Bug("a new group begins at 0 where the queue's first message would be in memory", _ASKED + "::begins_in_memory",
        "<= broker.limits.memory_bytes", ">= 0", _GROUPS),
    Bug("an empty queue begins at 0 up to 5.0.0", _ASKED + "::begins_in_memory", "< (5, 1, 0)", "< (5, 0, 0)", _GROUPS),
    Bug("a pull commits only where it says so", _ASKED + "::keep_pulled",
        'if number(request, "sysFlag") & _COMMIT_OFFSET:', "if True:", _GROUPS),
    Bug("offsets that clients add are counted", _OFFSETS + "::GroupOffsets.commit", "self._added += 1", "pass", _GROUPS),
    Bug("members are reported who came", _CONSUMERS + "::Consumers.join", "            self._tell_members(group)\n", "            pass\n", _GROUPS),
    Bug("a broadcast group's members are reported nothing", _CONSUMERS + "::Group.shares_queues",
        "return self.model != _BROADCASTING", "return True", _GROUPS),
    Bug("an older subscription does not replace a newer one", _CONSUMERS + "::Group.subscribe",
        "newer = old is None or each.version > old.version", "newer = True", _GROUPS),
    Bug("a client is forgotten after two minutes of silence, not at them", _CONSUMERS + "::Consumers.expire",
        "if now - client.heard > EXPIRY", "if now - client.heard >= EXPIRY", _GROUPS),
    Bug("a heartbeat without subscriptions keeps them", _HEARTBEATS + "::heartbeat",
        "broker.consumers.join(group, caller.connection, client, without)",
        "broker.consumers.join(group, caller.connection, client, False)", _GROUPS),
    Bug("names that clients make up are not kept", _SERVING + "served_store.py" + "::ServedStore.queue",
        "        if topic not in self.topics:  # nothing is kept of names that clients make up\n            return None\n", "", _HOSTILE),
    Bug("a number that is none is no exception", _HEARTBEATS + "::_NOT_JSON", "(ValueError, OverflowError, KeyError", "(ValueError, KeyError", _HOSTILE),
    Bug("a signature is over the body too", "broker/remoting/signature.py::signature",
        '.encode("utf-8", "replace") + body', '.encode("utf-8", "replace")', _ACCESS),
    Bug("a signature is over the fields in order of their names", "broker/remoting/signature.py::signature",
        "names = sorted((name for name in fields if name != SIGNATURE), key=_as_java)",
        "names = [name for name in fields if name != SIGNATURE]", _ACCESS),
    Bug("keys that others can read are not taken", "jobs/serve/tls.py::refuse_readable_by_others",
        "if mode & (stat.S_IRWXG | stat.S_IRWXO):", "if mode & stat.S_IRWXG:", _ACCESS),
    Bug("a plain connection is refused where TLS must be", "jobs/serve/tls.py::TlsMode.begin",
        "        if self.required:\n", "        if False:\n", _ACCESS),
    Bug("group offsets are never written into the store", "jobs/serve/offsets_file.py::OffsetsFile.__init__",
        "WholeFile(path, tuple(inputs), _BEGINS", "WholeFile(path, (), _BEGINS", _ACCESS),
    Bug("what a file of offsets lacks is the store's", "jobs/serve/offsets_file.py::OffsetsFile.over",
        "{**start.get(key, {}), **kept.get(key, {})}", "kept.get(key, start.get(key, {}))", _ACCESS),
)  # fmt: skip
