"""The progress of a sweep: a line that is redrawn on a terminal, otherwise an occasional line."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import NamedTuple, TextIO

__all__ = ["Progress", "Status"]

PAUSE_S = 30.0
"""Seconds between two lines if standard error is no terminal."""
REDRAW_S = 0.2
"""Seconds between two drawings if standard error is a terminal."""


class Status(NamedTuple):
    """The progress of a sweep."""

    done: int
    """Finished runs."""
    runs: int
    """All runs that must be made."""
    elapsed_s: float
    """Seconds since it began."""
    left_s: float | None
    """Seconds that are left, estimated from the finished runs; ``None`` before the first."""


class Progress:
    """Reports the progress of a sweep."""

    def __init__(
        self,
        name: str,
        runs: int,
        show: bool | Callable[[Status], None] = True,
        stream: TextIO | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._name = name
        self._runs = runs
        self._show = show
        self._stream = sys.stderr if stream is None else stream
        self._clock = clock
        self._began = self._last = clock()
        self._drawn = 0
        self._done = 0

    @property
    def elapsed_s(self) -> float:
        """Seconds since it began."""
        return self._clock() - self._began

    def done(self, runs: int, share: float) -> None:
        """Records further finished runs, and the share of the work that is finished, 0 to 1."""
        self._done += runs
        elapsed = self.elapsed_s
        left = elapsed * (1.0 - share) / share if share > 0.0 else None
        status = Status(self._done, self._runs, elapsed, left)
        if callable(self._show):
            self._show(status)
        elif self._show:
            self._tell(status)

    def _tell(self, status: Status) -> None:
        now = self._clock()
        terminal = self._stream.isatty()
        if now - self._last < (REDRAW_S if terminal else PAUSE_S):
            return
        self._last = now
        left = "" if status.left_s is None else f", {status.left_s / 60:.1f} min left"
        line = f"{self._name}: {status.done}/{status.runs} runs{left}"
        if terminal:
            self._stream.write("\r" + line.ljust(self._drawn))
            self._drawn = len(line)
        else:
            self._stream.write(line + "\n")
        self._stream.flush()

    def finish(self) -> None:
        """Ends the report and erases the drawn line."""
        if self._drawn:
            self._stream.write("\r" + " " * self._drawn + "\r")
            self._stream.flush()
            self._drawn = 0
