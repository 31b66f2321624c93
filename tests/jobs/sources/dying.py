"""An engine of Delta tables that is killed at one of its steps."""

from typing import Any

_STEPS = ("create", "add_messages", "add_row")


class Killed(BaseException):
    """What ends the process, as far as the code around can tell."""


class Dying:
    """As another engine up to its step `at`, from 1 on; late: that one is still done."""

    def __init__(self, engine: Any, at: int, late: bool) -> None:
        self._engine, self._at, self._late = engine, at, late

    def __getattr__(self, name: str) -> Any:
        asked = getattr(self._engine, name)
        return self._step(asked) if name in _STEPS else asked

    def _step(self, step: Any) -> Any:
        def call(*words: Any) -> Any:
            self._at -= 1
            if self._at == 0 and not self._late:
                raise Killed
            done = step(*words)
            if self._at == 0:
                raise Killed
            return done

        return call
