"""A writer may be used by its own process, until it is closed or a write has failed."""

import os
from multiprocessing import get_context

import pytest

from reput.broker.writer.appender import UsageGuard
from reput.store_format.message.refusals import ForkedWriter, WriterClosed, WriterFailed


def test_a_new_writer_may_be_used() -> None:
    guard = UsageGuard()
    assert guard.is_usable
    assert not guard.is_fork
    guard.check_usable()


def test_a_closed_one_may_not_but_is_sound() -> None:
    guard = UsageGuard()
    guard.closing = True
    assert not guard.is_usable
    guard.check_process()
    guard.check_sound()
    with pytest.raises(WriterClosed):
        guard.check_usable()


def test_the_first_error_stays_and_is_told_before_that_it_is_closed() -> None:
    guard = UsageGuard()
    guard.fail(OSError("first"))
    guard.fail(OSError("second"))
    guard.closing = True
    assert not guard.is_usable
    for check in (guard.check_sound, guard.check_usable):
        with pytest.raises(WriterFailed, match="first"):
            check()


def test_an_error_that_is_the_callers_own_does_not_end_the_writer() -> None:
    guard = UsageGuard()
    with pytest.raises(ValueError, match="wrong"), guard.failing():
        raise ValueError("wrong")
    assert guard.is_usable


def test_an_os_error_ends_the_writer() -> None:
    guard = UsageGuard()
    with pytest.raises(WriterFailed, match="no space") as failed, guard.failing():
        raise OSError("no space")
    assert isinstance(failed.value.__cause__, OSError)
    assert not guard.is_usable
    assert "no space" in str(guard.failed(OSError("later")))


def _said(guard: UsageGuard) -> list[str]:
    said = []
    for check in (guard.check_process, guard.check_usable):
        with pytest.raises(ForkedWriter) as error:
            check()
        said.append(str(error.value))
    assert guard.is_fork
    assert not guard.is_usable
    return said


def test_in_a_fork_that_is_told_first() -> None:
    guard = UsageGuard()
    guard.fail(OSError("an error"))
    with get_context("fork").Pool(1) as pool:
        for said in pool.apply(_said, [guard]):
            assert f"process {os.getpid()}" in said
    assert not guard.is_fork
