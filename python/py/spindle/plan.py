"""Groups runs into jobs, and estimates the remaining work and its duration."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import NamedTuple

__all__ = ["Batch", "Group", "Plan", "Task"]

JOB_S = 2.0
"""The intended duration of a job in seconds, far above the few milliseconds that handing it out costs."""
LEAST_S = 1.0
"""Towards the end jobs become shorter, so that all workers end together, but not below this."""
MOST_S = 30.0
"""In a long sweep jobs become longer, so that a store does not have millions of files, but not beyond this limit,
which is the work that a lost worker costs."""
MANY = 100
"""A sweep is long if each worker has at least this number of jobs left."""


class Group(NamedTuple):
    """Runs that take about the same time."""

    experiment: int
    """The experiment's number in the sweep."""
    point: int
    transport: str


class Task(NamedTuple):
    """A run that must be made."""

    group: Group
    number: int
    """Its number among the runs of its experiment."""


class Batch(NamedTuple):
    """Runs of one experiment that are made one after the other as one job."""

    experiment: int
    tasks: list[Task]


class _Mean:
    __slots__ = ("count", "total")

    def __init__(self) -> None:
        self.count, self.total = 0, 0.0

    def add(self, value: float) -> None:
        self.count += 1
        self.total += value

    def value(self) -> float | None:
        return self.total / self.count if self.count else None


class Plan:
    """Hands out the runs of a sweep in jobs of a second or more, estimated from the finished runs.

    Runs of a transport at a point take about the same time. If no such run has finished, the estimate
    uses the experiment's runs with the same transport, then all of its runs. Until the first run of an
    experiment has ended, each run is a separate job.
    """

    def __init__(self, tasks: Iterable[Task]) -> None:
        self._queue: deque[Task] = deque(tasks)
        self._means: dict[tuple[object, ...], _Mean] = {}
        self._left: dict[Group, int] = {}
        self._out: dict[Group, int] = {}
        for task in self._queue:
            self._left[task.group] = self._left.get(task.group, 0) + 1
        self._alone: set[Task] = set()
        self.runs = len(self._queue)
        self._spent_s = 0.0

    def __bool__(self) -> bool:
        return bool(self._queue)

    def next(self, slots: int) -> Batch | None:
        """Returns the next job, if runs are left; ``slots`` is the number of jobs that can run at a time."""
        if not self._queue:
            return None
        first = self._queue.popleft()
        tasks, expected = [first], self._expected(first.group)
        target = self._target(slots)
        if first in self._alone:
            expected = None
        while expected is not None and expected < target and self._queue:
            task = self._queue[0]
            more = self._expected(task.group)
            if task.group.experiment != first.group.experiment or task in self._alone:
                break
            if more is None or expected + more > 2 * target:
                break
            tasks.append(self._queue.popleft())
            expected += more
        for task in tasks:
            self._move(task.group, self._left, self._out)
        return Batch(first.group.experiment, tasks)

    def done(self, batch: Batch, seconds: list[float]) -> None:
        """Records that a job has finished, and how long each of its runs took."""
        for task, took in zip(batch.tasks, seconds, strict=True):
            self._out[task.group] -= 1
            self._spent_s += took
            for key in self._keys(task.group):
                self._means.setdefault(key, _Mean()).add(took)

    def give_back(self, batch: Batch) -> None:
        """Records that a job was lost. Its runs are made first, each as a separate job, since one of them may
        be the reason."""
        self._alone.update(batch.tasks)
        for task in reversed(batch.tasks):
            self._move(task.group, self._out, self._left)
            self._queue.appendleft(task)

    def share(self) -> float:
        """The share of all the work that is finished, 0 to 1."""
        left = self._seconds(self._left) + self._seconds(self._out)
        return self._spent_s / (self._spent_s + left) if self._spent_s > 0 else 0.0

    def _target(self, slots: int) -> float:
        each = self._seconds(self._left) / max(slots, 1)
        usual = max(JOB_S, min(MOST_S, each / MANY))
        return max(LEAST_S, min(usual, each / 2))

    def _seconds(self, counts: dict[Group, int]) -> float:
        return sum(n * (self._expected(g) or 0.0) for g, n in counts.items() if n)

    def _expected(self, group: Group) -> float | None:
        means = (self._means.get(key) for key in self._keys(group))
        return next((m.value() for m in means if m is not None), None)

    @staticmethod
    def _keys(group: Group) -> tuple[tuple[object, ...], ...]:
        same_transport = (group.experiment, group.transport)
        return (group, same_transport, (group.experiment,))

    @staticmethod
    def _move(group: Group, source: dict[Group, int], to: dict[Group, int]) -> None:
        source[group] -= 1
        to[group] = to.get(group, 0) + 1
