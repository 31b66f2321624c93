"""Pending transactions are ended as a broker ends them, once, and the broker's file says so."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from reput.broker.services import resolve
from reput.broker.services.resolve import (
    Decisions,
    Outcome,
    Resolved,
    plan_resolution,
    read_decisions,
    resolve_planned,
)
from reput.jobs.cli import main
from reput.store_format.fate import transactions
from reput.store_format.fate.rows import gathered_transactions
from reput.store_format.fate.transactions import TransactionState
from reput.store_format.faults import StoreError
from reput.store_format.files.disk import DiskFiles
from reput.store_format.files.protocol import Files
from reput.store_format.layouts import SYS_TRANSACTION_COMMIT
from reput.store_format.message.message import (
    CHECK_MAX_TOPIC,
    HALF_TOPIC,
    OP_TOPIC,
    ROCKSDB_HALF_TOPIC,
    Message,
    parse_properties,
)
from reput.store_format.notes import Notes
from tests.broker.services import stores
from tests.broker.services.preparing import Transactions
from tests.broker.writer.stores import stored_records
from tests.faults.failing import distinct, judge_all, same_again
from tests.faults.memory_files import Crash, MemoryFiles, crash_states

ALL_COMMIT = Decisions(Outcome.COMMIT, {})
ALL_BACK = Decisions(Outcome.ROLLBACK, {})


def fill(files: Files, **named: Any) -> None:
    """a: pending; b: checked back once; c: 15 times; d: discarded; e: committed; f: rolled back."""
    clock = stores.Clock(stores.T0)
    with stores.writing(files, clock, **named) as writer:
        ends = Transactions(writer)
        stores.half(writer, "a")
        stores.half(writer, "b")
        stores.half(writer, "b", checks=1)
        stores.half(writer, "c", checks=15)
        stores.half(writer, "d", checks=15)
        pairs = b"UNIQ_KEY\x01d\x02REAL_TOPIC\x01Orders\x02REAL_QID\x011\x02"
        given_up = Message(CHECK_MAX_TOPIC, b"d", 0, properties=pairs)
        writer.put(writer.encoder.draft(given_up))
        ends.commit(stores.half(writer, "e"))
        ends.rollback(stores.half(writer, "f"))


def states(files: Files) -> dict[str, TransactionState]:
    found = {}
    with stores.opened(files) as store:
        gathered, position, _ = gathered_transactions(store, Notes())
        for each in transactions.resolve(gathered, position):
            record = store.log.record_at(each.first)
            found[parse_properties(record.properties)["UNIQ_KEY"]] = each.state
    return found


def run(files: Files, decisions: Decisions = ALL_COMMIT, discarded: bool = False,
        stop_after: int = 0, **named: Any) -> Resolved:  # fmt: skip
    clock = stores.Clock(stores.T0 + 10_000)
    left = [stop_after]

    def go_on() -> bool:
        left[0] -= 1
        return left[0] != 0

    with stores.writing(files, clock, **named) as writer, stores.opened(files) as store:
        gathered, position, _ = gathered_transactions(store, Notes())
        found = transactions.resolve(gathered, position)
        plan = plan_resolution(store.log, found, decisions, discarded, 15, position, False)
        if not plan.needed:
            return Resolved(0, 0, 0, 0, [])
        return resolve_planned(writer, store, plan, go_on)


def position(files: DiskFiles) -> Any:
    text = Path(files.root, "config/consumerOffset.json").read_text()
    return json.loads(text.replace("{0:", '{"0":'))["offsetTable"][
        f"{HALF_TOPIC}@CID_RMQ_SYS_TRANS"]  # fmt: skip


@pytest.fixture
def files(tmp_path: Path) -> DiskFiles:
    made = stores.disk(tmp_path / "store")
    fill(made)
    return made


def test_pending_ones_are_committed_and_discarded(files: DiskFiles) -> None:
    assert run(files)[:4] == (2, 0, 1, 0)
    assert stores.bodies(files) == ["e", "a", "b"]
    assert stores.bodies(files, CHECK_MAX_TOPIC, 0) == ["d", "c"]
    assert states(files) == {"a": "committed", "b": "committed", "c": "discarded", "d": "discarded",
                             "e": "committed", "f": "rolled back"}  # fmt: skip
    assert stores.bodies(files, OP_TOPIC, 0)[-1] == "0,1,2,"  # both of b
    assert position(files) == {"0": 7}
    assert run(files)[:4] == (0, 0, 0, 0)
    assert stores.bodies(files) == ["e", "a", "b"]


def test_a_commit_names_the_newest_copy(files: DiskFiles) -> None:
    run(files)
    records = list(stored_records(Path(files.root, "commitlog")))
    copies = {r.body: r.physical_offset for r in records if r.topic == HALF_TOPIC}
    made = {r.body: r for r in records if r.topic == "Orders"}
    for body in (b"a", b"b"):
        assert made[body].prepared_offset == copies[body]
        assert made[body].transaction == SYS_TRANSACTION_COMMIT


def test_pending_ones_are_rolled_back(files: DiskFiles) -> None:
    assert run(files, ALL_BACK)[:4] == (0, 2, 1, 0)
    assert stores.bodies(files) == ["e"]
    assert Counter(states(files).values()) == {"rolled back": 3, "discarded": 2, "committed": 1}


@pytest.mark.parametrize(
    ("decisions", "what"), [(ALL_COMMIT, "committed"), (ALL_BACK, "rolled back")])  # fmt: skip
def test_what_was_given_up_is_brought_back(files, decisions: Decisions, what: str) -> None:
    run(files, decisions, discarded=True)
    reported = states(files)
    assert {reported[key] for key in "abcd"} == {what}
    assert stores.bodies(files) == (["e", *"abcd"] if what == "committed" else ["e"])
    assert run(files, decisions, discarded=True)[:4] == (0, 0, 0, 0)


@pytest.mark.parametrize(("release", "ops"), [
    ("4.9.7", ["0", "1", "2"]), ("5.0.0", ["0", "1", "2"]), ("5.1.0", ["0,1,2,"])])  # fmt: skip
def test_an_op_has_the_releases_format(tmp_path: Path, release: str, ops: list[str]) -> None:
    files = stores.disk(tmp_path)
    fill(files, release=release)
    run(files, release=release)
    assert stores.bodies(files, OP_TOPIC, 0)[2:] == ops


@pytest.mark.parametrize(("release", "kept"), [("5.3.4", True), ("5.4.0", False)])
def test_what_is_committed_keeps_its_place_up_to_5_3_4(tmp_path, release: str, kept: bool) -> None:
    files = stores.disk(tmp_path)
    fill(files, release=release)
    run(files, release=release)
    found = stores.properties_in(files)
    assert len(found) == 3  # e, and then a and b
    assert {("REAL_TOPIC" in each, "REAL_QID" in each) for each in found} == {(kept, kept)}
    assert {each["TRAN_MSG"] for each in found} == {"true"}


def test_an_op_has_no_more_than_a_brokers_and_what_has_no_place_stays(tmp_path: Path) -> None:
    files = stores.disk(tmp_path)
    with stores.writing(files, stores.Clock(stores.T0)) as writer:
        for number in range(30):
            stores.half(writer, f"k{number}")
    run(files, ALL_BACK, transactionOpMsgMaxSize=20)
    assert [len(body) for body in stores.bodies(files, OP_TOPIC, 0)] == [20, 21, 21, 18]
    (tmp_path := tmp_path / "1").mkdir()
    files = stores.disk(tmp_path)
    with stores.writing(files, stores.Clock(stores.T0)) as writer:
        stores.half(writer, "a", REAL_QID="x")
        stores.half(writer, "b")
    made = run(files)
    assert made[:4] == (1, 0, 0, 0)
    assert "NotPrepared" in made.refused[0]
    assert states(files) == {"a": "pending", "b": "committed"}
    assert run(files, ALL_BACK)[:4] == (0, 1, 0, 0)


def test_only_what_is_named_is_ended(files: DiskFiles) -> None:
    place = next(r.physical_offset for r in stored_records(Path(files.root, "commitlog"))
                 if r.topic == HALF_TOPIC)  # fmt: skip
    assert run(files, Decisions(None, {place: Outcome.ROLLBACK}))[:4] == (0, 1, 0, 0)
    assert {key: state for key, state in states(files).items() if key in "abc"} == {
        "a": "rolled back", "b": "pending", "c": "pending"}  # fmt: skip
    assert position(files) == {"0": 1}
    assert run(files, Decisions(None, {"c": Outcome.COMMIT}))[:4] == (1, 0, 0, 0)
    assert position(files) == {"0": 1}  # b is before it
    assert stores.bodies(files, CHECK_MAX_TOPIC, 0) == ["d"]


def test_a_name_must_be_that_of_one(files: DiskFiles) -> None:
    with pytest.raises(StoreError, match="'nobody' names no half message in the log"):
        run(files, Decisions(None, {"nobody": Outcome.COMMIT, "a": Outcome.COMMIT}))
    assert states(files)["a"] == "pending"
    with stores.writing(files, stores.Clock(stores.T0)) as writer:
        stores.half(writer, "a")
    with pytest.raises(StoreError, match="'a' names two transactions, at physical 0 and"):
        run(files, Decisions(None, {"a": Outcome.COMMIT}))


def test_a_key_and_an_offset_of_one_must_agree(files: DiskFiles) -> None:
    """a is at physical 0."""
    both: dict[str | int, Outcome] = {"a": Outcome.COMMIT, 0: Outcome.ROLLBACK}
    with pytest.raises(StoreError, match="0 and 'a' name one transaction, and decide it otherwise"):
        run(files, Decisions(None, both))
    assert states(files)["a"] == "pending"
    assert run(files, Decisions(None, both | {0: Outcome.COMMIT}))[:4] == (1, 0, 0, 0)


def test_what_has_ended_otherwise_is_reported(files: DiskFiles) -> None:
    decisions = Decisions(None, {"e": Outcome.ROLLBACK, "f": Outcome.ROLLBACK})
    with stores.opened(files) as store:
        gathered, at, _ = gathered_transactions(store, Notes())
        found = transactions.resolve(gathered, at)
        plan = plan_resolution(store.log, found, decisions, False, 15, at, False)
    assert len(plan.ended_otherwise) == 1
    assert "is committed: it stays so" in plan.ended_otherwise[0]
    assert (plan.commits, plan.rollbacks) == ([], [])


def test_a_commit_of_a_delayed_message_waits_and_one_without_its_op_gets_it(tmp_path: Path) -> None:
    files = stores.disk(tmp_path)
    with stores.writing(files, stores.Clock(stores.T0)) as writer:
        stores.half(writer, "a", DELAY="2")
        stores.half(writer, "b", TIMER_DELAY_SEC="100")
    run(files)
    assert stores.bodies(files, "SCHEDULE_TOPIC_XXXX", 1) == ["a"]
    assert stores.bodies(files, "rmq_sys_wheel_timer", 0) == ["b"]
    properties = [parse_properties(r.properties) for r in stored_records(tmp_path / "commitlog")
                  if r.transaction]  # fmt: skip
    assert len(properties) == 2
    for each in properties:
        assert not {"WAIT", "TRAN_MSG"} & set(each)
        assert (each["REAL_TOPIC"], each["REAL_QID"]) == ("Orders", "1")
    (tmp_path := tmp_path / "1").mkdir()
    files = stores.disk(tmp_path)
    with stores.writing(files, stores.Clock(stores.T0)) as writer:
        ends = Transactions(writer)
        ends.put_committed(*ends.half(stores.half(writer, "a")))
    assert run(files)[:4] == (0, 0, 0, 1)
    assert stores.bodies(files) == ["a"]
    assert stores.bodies(files, OP_TOPIC, 0) == ["0,"]
    assert run(files)[:4] == (0, 0, 0, 0)


def test_a_stop_leaves_the_rest_for_the_next_run(tmp_path: Path) -> None:
    for many in (1, 2):
        files = stores.disk(tmp_path / str(many))
        fill(files)
        assert sum(run(files, stop_after=many)[:3]) == many
        assert sum(run(files)[:3]) == 3 - many
        assert sorted(stores.bodies(files)) == ["a", "b", "e"]
        assert stores.bodies(files, CHECK_MAX_TOPIC, 0) == ["d", "c"]


def check_all(decisions: Decisions, every: int, mixtures: int, **named: Any) -> int:
    start = MemoryFiles()
    fill(start, **named)
    files = same_again(start)
    run(files, decisions, **named)
    commit = decisions == ALL_COMMIT
    ended = "committed" if commit else "rolled back"

    def judge(crash: Crash) -> str:
        run(crash.files, decisions, **named)
        assert states(crash.files) == {"a": ended, "b": ended, "c": "discarded", "d": "discarded",
                                       "e": "committed", "f": "rolled back"}  # fmt: skip
        assert sorted(stores.bodies(crash.files)) == (["a", "b", "e"] if commit else ["e"])
        assert stores.bodies(crash.files, CHECK_MAX_TOPIC, 0) == ["d", "c"]
        assert run(crash.files, decisions, **named)[:4] == (0, 0, 0, 0)
        return "whole"

    left = distinct(crash_states(start, files.ops, 1, mixtures, every))
    return judge_all(left, files.ops, judge).total()


def test_crash_states_of_a_resolution() -> None:
    assert check_all(ALL_COMMIT, 40, 1) > 3


@pytest.mark.long
@pytest.mark.parametrize(("decisions", "release"), [(ALL_COMMIT, "5.3.3"), (ALL_BACK, "4.9.7")])
def test_all_crash_states_of_a_resolution(decisions: Decisions, release: str) -> None:
    assert check_all(decisions, 2, 2, release=release) > 30


# --- the file of decisions, and the command ----------------------------------------------------
def test_the_command(files: DiskFiles, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    words = ["resolve-transactions", files.root, "--rocketmq", "5.3.3", "--json", "--decide"]
    before = {p: p.read_bytes() for p in Path(files.root).rglob("*") if p.is_file()}
    assert main([*words, "commit", "--dry-run"]) == 1
    reported = json.loads(capsys.readouterr().out)
    assert (reported["to_commit"], reported["to_discard"], reported["done"]) == (2, 1, False)
    assert main([*words, "commit"]) == 2  # nobody says yes
    assert main([*words, str(tmp_path / "none")]) == 2
    assert main([*words, "commit", "--rocketmq", "4.2.0", "--yes"]) == 2
    assert "--rocketmq 4.2.0: the store's files are of 5.1.1 to 5.5.1" in capsys.readouterr().err
    assert {p: p.read_bytes() for p in Path(files.root).rglob("*") if p.is_file()} == before
    (tmp_path / "said").write_text("a commit\nb rollback\n")
    assert main([*words, str(tmp_path / "said"), "--yes"]) == 0
    reported = json.loads(capsys.readouterr().out)
    assert (reported["committed"], reported["rolled_back"], reported["pending"]) == (1, 1, 1)
    assert main([*words, str(tmp_path / "said")]) == 0  # all of it has been done
    assert json.loads(capsys.readouterr().out)["needed"] is False
    with stores.writing(files, stores.Clock(stores.T0)):
        assert main([*words, "commit", "--yes"]) == 2
    assert "holds its lock" in capsys.readouterr().err
    assert stores.bodies(files) == ["e", "a"]


def test_what_rocksdb_tells_a_broker_of_is_refused_by_name(files: DiskFiles) -> None:
    """And stays pending where others are decided; the broker's file says nothing of its queue."""
    with stores.writing(files, stores.Clock(stores.T0 + 5000)) as writer:
        at = stores.half(writer, "r", topic=ROCKSDB_HALF_TOPIC)
    for decisions in (ALL_COMMIT, ALL_BACK, Decisions(None, {"r": Outcome.COMMIT})):
        with pytest.raises(StoreError, match=f"physical {at}: .*decide FILE decides the others$"):
            run(files, decisions)
    named = dict.fromkeys("abc", Outcome.ROLLBACK)
    assert run(files, Decisions(None, named))[:4] == (0, 3, 0, 0)
    assert states(files)["r"] == "pending"
    assert position(files) == {"0": 7}


# --- A file that decides transactions: one name and one word a line.
KEY = "7F0000010001000000000A1B2C3D0000"
COMMIT, ROLLBACK = Outcome.COMMIT, Outcome.ROLLBACK


def test_a_line_names_a_transaction_by_its_key_or_by_its_place() -> None:
    text = f"\n# all of Monday's\n  {KEY}\tcommit \r\n#x y z\n1024 ROLLBACK\n"
    found = read_decisions("f", text)
    assert found.named == {KEY: COMMIT, 1024: ROLLBACK}
    assert found.default is None
    assert read_decisions("f", "").named == {}
    for name, key in [
        ("0", 0), ("007", 7), ("9" * 20, int("9" * 20)), ("9" * 21, "9" * 21), ("-1", "-1"),
        ("1.0", "1.0"), ("\u0661", "\u0661"), ("\u00b2", "\u00b2"), ("1a", "1a")]:  # fmt: skip
        assert read_decisions("f", f"{name} commit").named == {key: COMMIT}
    assert read_decisions("f", "a commit\na COMMIT\n7 rollback\n07 rollback").named == {
        "a": COMMIT, 7: ROLLBACK}  # fmt: skip


def test_what_is_wrong_in_a_file_is_named_by_its_line(monkeypatch: pytest.MonkeyPatch) -> None:
    for text, told in [
        ("a", "f: line 1: 1 words"), ("\n\na commit now", "f: line 3: 3 words"),
        ("a keep", "f: line 1: decision 'keep'"), ("a commit\nb " + "x" * 99, "'" + "x" * 60 + "'"),
        ("a commit\na rollback", "f: line 2: 'a' was decided otherwise"),
        ("7 commit\n007 rollback", "f: line 2: '007' was decided otherwise")]:  # fmt: skip
        with pytest.raises(StoreError) as wrong:
            read_decisions("f", text)
        assert told in str(wrong.value)
    monkeypatch.setattr(resolve, "_LINES_MOST", 2)
    assert len(read_decisions("f", "a commit\nb commit\n\n# c").named) == 2
    with pytest.raises(StoreError, match="line 3: more than 2 lines"):
        read_decisions("f", "a commit\nb commit\nc commit")
