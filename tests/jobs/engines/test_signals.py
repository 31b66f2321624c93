"""How a command ends when it is asked to: at once, or between two steps."""

import logging
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from reput.jobs.engines import signals


@pytest.fixture(autouse=True)
def _handlers() -> Iterator[None]:
    """Each test leaves the handlers as they were, and begins with ones that end nothing."""
    before = {number: signal.signal(number, lambda *_: None) for number in signals.SIGNALS}
    own = {number: signal.getsignal(number) for number in signals.SIGNALS}
    yield
    found = {number: signal.getsignal(number) for number in signals.SIGNALS}
    for number, handler in before.items():
        signal.signal(number, handler)
    assert found == own


def ended(number: int, then: Callable[[], object], *first: Callable[[], None]) -> signals.Ended:
    """What is raised where a signal comes, and `then` is done on the way out."""
    with ExitStack() as stack:
        for each in first:
            stack.enter_context(signals.ended_first(each))
        try:
            with signals.ending_by_signals():
                try:
                    signal.raise_signal(number)
                finally:
                    then()
        except signals.Ended as error:
            return error
    raise AssertionError("it went on")


@pytest.mark.parametrize("number", signals.SIGNALS)
def test_a_signal_becomes_an_exception_after_what_is_to_end_first(number: signal.Signals) -> None:
    order: list[str] = []
    raised = ended(number, lambda: order.append("folders"), lambda: order.append("processes"))
    assert order == ["processes", "folders"]
    assert (raised.number, str(raised)) == (number, f"ended by {number.name}")
    assert isinstance(raised, KeyboardInterrupt)


def test_what_breaks_on_the_way_out_and_a_second_signal_do_not_take_its_place() -> None:
    def broken() -> None:
        raise ConnectionError("the JVM is gone")

    assert isinstance(ended(signal.SIGTERM, broken).__cause__, ConnectionError)
    raised = ended(signal.SIGINT, lambda: signal.raise_signal(signal.SIGHUP))
    assert raised.number == signal.SIGINT
    found: list[int] = []
    ended(signal.SIGTERM, lambda: found.append(logging.root.manager.disable))
    assert (found, logging.root.manager.disable) == ([logging.CRITICAL], logging.NOTSET)
    with pytest.raises(ConnectionError), signals.ending_by_signals():
        raise ConnectionError
    assert logging.root.manager.disable == logging.NOTSET


def test_between_two_steps_the_work_stops_and_within_one_it_does_not() -> None:
    done: list[int] = []

    def work() -> None:
        with signals.StopSignals() as stop:
            for step in range(3):
                stop.check()
                if step == 1:
                    signal.raise_signal(signal.SIGTERM)
                done.append(step)

    with pytest.raises(signals.Stopped, match="SIGTERM") as stopped:
        work()
    assert done == [0, 1]
    assert stopped.value.exit_code == 128 + 15


def test_a_wait_for_input_ends_at_once() -> None:
    def lines() -> Iterator[str]:
        yield "one"
        signal.raise_signal(signal.SIGINT)
        yield "never"

    taken: list[str] = []
    with pytest.raises(signals.Stopped), signals.StopSignals() as stop:
        taken.extend(stop.waiting(lines()))
    with signals.StopSignals() as stop:
        assert list(stop.waiting(iter(["a", "b"]))) == ["a", "b"]
    assert taken == ["one"]


def test_a_second_signal_ends_the_process_as_ever() -> None:
    came: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, _: came.append(number))
    with signals.StopSignals():
        signal.raise_signal(signal.SIGINT)
        first = list(came)
        signal.raise_signal(signal.SIGINT)
    signal.signal(signal.SIGINT, before)
    assert (first, came) == ([], [signal.SIGINT])


def test_what_nohup_ignores_stays_ignored_and_the_handler_of_ctrl_c_is_put_back() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with signals.StopSignals() as stop:
            signal.raise_signal(signal.SIGHUP)
            stop.check()
        with signals.ending_by_signals():
            signal.raise_signal(signal.SIGHUP)
    finally:
        signal.signal(signal.SIGHUP, before)
    before = signal.getsignal(signal.SIGINT)
    with signals.handlers_kept():
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    assert signal.getsignal(signal.SIGINT) is before


def test_another_thread_handles_none_and_goes_on() -> None:
    done: list[bool] = []

    def work() -> None:
        with signals.ending_by_signals(), signals.StopSignals() as stop, signals.handlers_kept():
            stop.check()
            done.append(True)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert done == [True]
