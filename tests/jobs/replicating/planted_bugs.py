# ruff: noqa: E501 - a line of source is quoted whole
"""One planted bug for each rule of replication (tests/mutants.py plants them)."""

from functools import partial

from tests.planting import Bug, only

_LOG, _TARGET = "broker/change/replica.py", "jobs/replicating/target.py"
_RUN, _SOURCE = "jobs/replicating/from_folder.py", "jobs/replicating/source.py"
_WIRE, _CONFIG = "jobs/replicating/from_master.py", "jobs/replicating/config_files.py"
_MASTER, _SLAVE = "broker/replication/master.py", "broker/replication/slave.py"
_HA = "jobs/replicating/ha_master.py"


def copy(part: str) -> tuple[str, ...]:
    return ("tests/jobs/test_replicate.py", "-m", "not long", "-k", part)


def wire(part: str) -> tuple[str, ...]:
    return ("tests/jobs/replicating/test_from_master.py", "-m", "not long", "-k", part)


frames = partial(only, "tests/broker/replication/test_frames.py")


BUGS = (
    Bug(
        "a record counts when all of it is there",
        _LOG + "::ReplicaLog.write",
        "            kept = max(min(self._head_end(self.end) - at, len(part)), 0)",
        "            kept = 0",
        ("tests/broker/change/test_replica.py",),
    ),
    Bug(
        "a segment is whole before the next begins",
        _WIRE + "::WireReplication._take",
        "            now = data[: size - log.written % size]",
        "            now = data",
        wire("over_the_ends"),
    ),
    Bug(
        "the next record's first bytes are kept back",
        _LOG + "::ReplicaLog.commit",
        "            file.write_at(to - segment, _ZEROS[: len(head)])",
        "            pass",
        ("tests/broker/change/test_replica.py",),
    ),
    Bug(
        "a broker that comes while a log grows recovers",
        _TARGET + "::ReplicaTarget.begin",
        "            catching.guard(New(position, LogRest(position.first, position.first)))",
        "            pass",
        copy("same_bytes or killed_at_some"),
    ),
    Bug(
        "a replica has a note before it has a log",
        _TARGET + "::ReplicaTarget.begin",
        "            self.note(self.last)\n        self.log.clear_end()",
        "            pass\n        self.log.clear_end()",
        copy("killed_at_some or before_the_first_note"),
    ),
    Bug(
        "the last record is compared when going on",
        _TARGET + "::ReplicaTarget.take_up",
        "        differs = first_difference(self.read, source, low, end, self.segment_bytes)\n        if differs < end and differs >= begin and",
        "        differs = end\n        if differs < end and differs >= begin and",
        copy("another_log"),
    ),
    Bug(
        "the first record is compared when going on",
        _TARGET + "::ReplicaTarget.take_up",
        "            self._compare(source, first, min(first + _HEAD_BYTES, low))",
        "            pass",
        copy("another_first"),
    ),
    Bug(
        "all of a replica is compared where that is asked",
        _TARGET + "::ReplicaTarget.take_up",
        "        if verify:\n            self._compare(source, max(start, first), low)\n        elif start",
        "        if start",
        copy("in_the_midst"),
    ),
    Bug(
        "what the source has deleted is reported",
        _TARGET + "::ReplicaTarget.take_up",
        "        if end < start:\n            raise ReplicaDiffers(self._deleted(end, start))\n        self._refuse_longer",
        "        self._refuse_longer",
        copy("cleaned_source"),
    ),
    Bug(
        "the last record of a growing log waits",
        _RUN + "::Replication._write",
        "        if hold and piece.records and piece.whole % self.source.segment_bytes:",
        "        if False:",
        copy("last_record_of_a_growing"),
    ),
    Bug(
        "a CRC is compared before a record is copied",
        _RUN + "::Replication._round",
        "        checks = Checks(body=how.check_crc)",
        "        checks = Checks(body=False)",
        copy("damage_ends"),
    ),
    Bug(
        "a record that is stored too late is not wanted",
        _SOURCE + "::LogLimit.of",
        'rows["storeTimestamp"][:good] > self.time)',
        'rows["storeTimestamp"][:good] >= self.time)',
        copy("as_far_as"),
    ),
    Bug(
        "offsets of consumers are not ahead of the log",
        _RUN + "::Replication._round",
        "        all_wanted = how.wanted == ALL_WANTED",
        "        all_wanted = True",
        copy("as_far_as"),
    ),
    Bug(
        "a file of config that somebody changed stays",
        _CONFIG + "::put_config",
        "        if now not in (copied.get(name), digest):",
        "        if False:",
        copy("config_that_somebody"),
    ),
    Bug(
        "a crash of a broker in the target is none of ours",
        _TARGET + "::ReplicaTarget._refuse_another_crash",
        "        if note is None or not is_noted(read_checkpoint(self.files), note):",
        "        if False:",
        copy("crashed_broker"),
    ),
    Bug(
        "a folder with something else stays",
        _TARGET + "::check_target",
        '    if names - {"lock", "lost+found"} and not names & {COMMIT_LOG, NOTE}:',
        "    if False:",
        copy("what_is_no_replica"),
    ),
    # over the wire
    Bug(
        "a new slave reports no 0",
        _SLAVE + "::DefaultSlave.__init__",
        "        super().__init__(max(start, 1))",
        "        super().__init__(start)",
        frames("never_reports_0"),
    ),
    Bug(
        "the byte that no master sends is put before",
        _SLAVE + "::DefaultSlave.receive",
        '            parts.insert(0, LogChunk(0, b"\\0", False))',
        "            pass",
        wire("same_bytes"),
    ),
    Bug(
        "another place of the log is no next one",
        _SLAVE + "::_Common._log",
        "        if part.offset != self._next and (part.data or part.offset >= 0):",
        "        if False:",
        frames("another_place"),
    ),
    Bug(
        "the last record comes again and is compared",
        _WIRE + "::WireReplication._take",
        "            self._compare(part.offset, data[:known])",
        "            pass",
        wire("another_log"),
    ),
    Bug(
        "a master that sends garbage is given up soon",
        _WIRE + "::WireReplication._connections",
        "            if down or garbage >= _GARBAGE_TRIES:",
        "            if down:",
        wire("garbage_is_given_up"),
    ),
    Bug(
        "a replica that is longer than its master's log is reported",
        _WIRE + "::WireReplication.run",
        "        if target.last >= 0 and 0 <= self.end < target.log.end:",
        "        if False:",
        wire("what_its_new_master_has_not"),
    ),
    Bug(
        "the last record is compared also where nothing is new",
        _WIRE + "::WireReplication._over",
        "            return end >= self.end and self._compared",
        "            return end >= self.end",
        wire("what_its_new_master_has_not"),
    ),
    Bug(
        "a silent master is given up",
        _WIRE + "::WireReplication._one",
        "                if slave.silent(now):",
        "                if False:",
        wire("silent"),
    ),
    Bug(
        "no frame is longer than a slave can take",
        "broker/replication/ha_frames.py::TransferReader._take_header",
        "            if not 0 <= self._left <= FRAME_MOST:",
        "            if self._left < 0:",
        frames("no_slave_could_take"),
    ),
    Bug(
        "a slave that has more than its master goes",
        _MASTER + "::_Common._reported",
        "        if offset > log.end:",
        "        if False:",
        frames("not_of_this_log"),
    ),
    Bug(
        "a new slave gets all of the log",
        _MASTER + "::_Common._reported",
        "            self._next = offset if offset else log.start",
        "            self._next = offset if offset else log.end - log.end % log.segment_bytes",
        frames("gets_all"),
    ),
    Bug(
        "a transfer ends with its segment",
        _MASTER + "::_Common._size",
        "        return max(min(log.end - self._next, left, self._batch), 0)",
        "        return max(min(log.end - self._next, self._batch), 0)",
        frames("gets_all"),
    ),
    Bug(
        "a transfer is of one epoch",
        _MASTER + "::SwitchConnection.next",
        "            size = min(size, later[0] - self._next)",
        "            pass",
        frames("epoch_by_epoch"),
    ),
    Bug(
        "a put waits for as many replicas as it should",
        "broker/replication/waits.py::is_replicated",
        "    return 1 + sum(offset >= put_end for offset in acked) >= replicas",
        "    return True",
        frames("counts_as_replicated"),
    ),
    Bug(
        "a slave that is too far behind is not waited for",
        "broker/replication/waits.py::is_slave_ok",
        "put_end - pushed < gap",
        "put_end - pushed <= gap",
        frames("counts_as_replicated"),
    ),
    Bug(
        "a master does not register with a store that is read",
        "broker/serving/slaves.py::register",
        '    if broker.slaves_at is None or number(request, "brokerId") == 0:',
        "    if broker.slaves_at is None:",
        ("tests/jobs/replicating/test_served_slaves.py",),
    ),
    Bug(
        "a log that goes on is no damaged one",
        _RUN + "::Replication._judge_end",
        "        if self._goes_on(at):",
        "        if False:",
        copy("end_is_judged"),
    ),
    Bug(
        "what came before a connection broke is made use of",
        _WIRE + "::WireReplication._received",
        "        self._advance()\n        raise ConnectionError",
        "        raise ConnectionError",
        wire("master_that_is_none"),
    ),
    Bug(
        "in controller mode the first report says where to begin",
        _SLAVE + "::SwitchSlave.report",
        "            self._asked, self._sent_at = True, now\n",
        "            self._asked, self._sent_at, self._reported = True, now, end\n",
        ("tests/broker/replication/test_frames.py", "-k", "shakes_hands"),
    ),
    Bug(
        "what is appended waits for its slaves",
        "jobs/append.py::Counted.add",
        "        self._wait()\n",
        "",
        ("tests/jobs/replicating/test_append_slaves.py",),
    ),
    Bug(
        "a SYNC_MASTER begins when enough slaves are there",
        "jobs/replicating/append_slaves.py::slaves_of",
        "        while replicated(writer.log.end) != PUT_OK:",
        "        while False:",
        ("tests/jobs/replicating/test_append_slaves.py",),
    ),
    Bug(
        "no more than sixteen slaves",
        _HA + "::HaMaster._accept",
        "            if full:",
        "            if False:",
        wire("slaves_that_are_none"),
    ),
)
