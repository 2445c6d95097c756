"""Errors, each with the lab's own message."""

from __future__ import annotations

import re

__all__ = [
    "ExperimentError",
    "RunError",
    "SpindleError",
    "Stopped",
    "StoreError",
    "SweepError",
    "UnknownName",
    "VersionMismatch",
    "WorkerLost",
]


class SpindleError(Exception):
    """The base class of Spindle's errors."""


class ExperimentError(SpindleError, ValueError):
    """An experiment that cannot be read or run as it is written.

    Its text is the lab's: file and line, or flag; key; what was found and what would be accepted.

    Attributes
    ----------
    file : str or None
        The file, as it was named.
    line : int or None
        Its line, from 1.
    flag : str or None
        Where the value comes from if not from a file, such as ``--set loss=2%``.
    key : str
        The dotted key; empty if none is concerned.
    problem : str
        What was found and what would be accepted.
    """

    def __init__(
        self,
        message: str,
        file: str | None = None,
        line: int | None = None,
        flag: str | None = None,
        key: str = "",
        problem: str = "",
    ) -> None:
        super().__init__(message, file, line, flag, key, problem)
        self.file = file
        self.line = line
        self.flag = flag
        self.key = key
        self.problem = problem or message

    def __str__(self) -> str:
        return str(self.args[0])

    @property
    def found(self) -> str | None:
        """The value that was found, if the message contains it."""
        match = re.search(r"found (.*?)(?:, want |$)", self.problem)
        return match.group(1) if match else None

    @property
    def accepted(self) -> str | None:
        """The accepted values, if the message contains them."""
        match = re.search(r"want (.*)$", self.problem)
        return match.group(1) if match else None


class RunError(SpindleError, ValueError):
    """A run that cannot be made: its network or its traffic is impossible."""


class Stopped(SpindleError):
    """A run that was ended because its sweep was cancelled."""


class UnknownName(SpindleError, LookupError):
    """An unknown name of an experiment, transport, metric, paper or scale."""


class SweepError(SpindleError):
    """A sweep that cannot continue."""


class StoreError(SweepError):
    """Stored runs that cannot be read, written or used."""


class VersionMismatch(SweepError):
    """A worker with another version of Spindle: its results would not be those of this one."""


class WorkerLost(SweepError):
    """Runs with which one worker after another was lost."""
