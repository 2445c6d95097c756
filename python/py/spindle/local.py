"""Jobs in threads of this process, since the lab runs without Python's lock."""

from __future__ import annotations

import os
import queue
from concurrent.futures import ThreadPoolExecutor

from . import _native
from .plan import Batch

__all__ = ["Local"]


class Local:
    """Makes runs in a given number of threads."""

    def __init__(self, experiments: list[_native.Experiment], jobs: int) -> None:
        self._experiments = experiments
        self._jobs = jobs
        self._stop = _native.Stop()
        self._pool = ThreadPoolExecutor(jobs, thread_name_prefix="spindle")
        self._done: queue.SimpleQueue[tuple[Batch, Made | BaseException]] = queue.SimpleQueue()

    def slots(self) -> int:
        """The number of jobs that run at a time."""
        return self._jobs

    def room(self) -> int:
        """The number of jobs that may be handed out and not yet finished, so that no thread waits for its next job."""
        return 2 * self._jobs

    def submit(self, batch: Batch) -> None:
        """Hands out a job."""
        self._pool.submit(self._work, batch)

    def _work(self, batch: Batch) -> None:
        try:
            native = self._experiments[batch.experiment]
            made = _native.run_jobs(native, [t.number for t in batch.tasks], self._stop)
            self._done.put((batch, made))
        except BaseException as e:
            self._done.put((batch, e))

    def wait(self, timeout: float) -> list[tuple[Batch, Made | BaseException | None]]:
        """Jobs that ended meanwhile: records with their seconds, or an error."""
        try:
            return [self._done.get(timeout=timeout)]
        except queue.Empty:
            return []

    def close(self) -> None:
        """Ends all jobs in progress."""
        self._stop.set()
        self._pool.shutdown(wait=True, cancel_futures=True)


Made = list[tuple[str, float]]
"""Records of runs, and the seconds that each took."""


def cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
