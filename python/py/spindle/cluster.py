"""Jobs on a dask cluster: on this machine, over SSH, SLURM, Kubernetes, or any other cluster of a `Client`."""

from __future__ import annotations

import contextlib
import functools
import queue
import threading
import time
import uuid
from collections import deque
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from . import _native
from .errors import VersionMismatch
from .experiment import Experiment
from .local import Made
from .plan import Batch
from .store import Key

if TYPE_CHECKING:
    from distributed import Client, Future

__all__ = ["Cluster"]

AHEAD = 2
"""Jobs handed out per worker thread, so that no thread waits for its next job."""
LOOK_S = 5.0
"""Seconds between counts of the workers."""


class Cluster:
    """Makes runs on the workers of a dask cluster."""

    def __init__(self, experiments: list[Experiment], client: Client) -> None:
        self._client = client
        self._experiments = [(e.to_toml(), e.id, e.variation) for e in experiments]
        self._keys = [[Key(*key) for _, key in e._native.keys()] for e in experiments]
        self._sweep = uuid.uuid4().hex
        self._under_way: dict[Future[Any], Batch] = {}
        self._done: queue.SimpleQueue[Future[Any]] = queue.SimpleQueue()
        self._threads = 0
        self._looked = -LOOK_S

    def slots(self) -> int:
        """The number of jobs that run at a time; at least one, since workers may join later."""
        now = time.monotonic()
        if now - self._looked >= LOOK_S:
            self._looked = now
            self._threads = sum(self._client.nthreads().values())
        return max(self._threads, 1)

    def room(self) -> int:
        """The number of jobs that may be handed out and not yet finished."""
        return AHEAD * self.slots()

    def submit(self, batch: Batch) -> None:
        """Hands out a job."""
        numbers = [t.number for t in batch.tasks]
        keys = [self._keys[batch.experiment][n] for n in numbers]
        future = self._client.submit(
            work, self._sweep, _native.VERSION, self._experiments[batch.experiment], numbers, keys, pure=False
        )
        self._under_way[future] = batch
        future.add_done_callback(self._done.put)

    def wait(self, timeout: float) -> list[tuple[Batch, Made | BaseException | None]]:
        """Jobs that ended meanwhile: records with their seconds, an error, or `None` if the workers
        were lost."""
        futures = list(_drained(self._done, timeout))
        finished = [f for f in futures if f.status == "finished"]
        results: dict[Future[Any], Any] = {}
        # All together, because each single result would cost a round trip to its worker. If that fails, they are
        # gathered one by one to find which job failed.
        with contextlib.suppress(Exception):
            results = dict(zip(finished, self._client.gather(finished), strict=True))
        outcomes = []
        for future in futures:
            batch = self._under_way.pop(future)
            if future not in results:
                results[future] = _result(future)
            outcomes.append((batch, results[future]))
            future.release()
        return outcomes

    def close(self) -> None:
        """Ends all jobs in progress, also on the workers."""
        if not self._under_way:
            return
        # If the cluster no longer exists, its runs have ended as well.
        with contextlib.suppress(Exception):
            self._client.cancel(list(self._under_way), force=True)
            self._client.run(stop, self._sweep, on_error="ignore")
        self._under_way.clear()


def _drained(done: queue.SimpleQueue[Future[Any]], timeout: float) -> Iterator[Future[Any]]:
    """Waits at most `timeout` seconds for a finished job; yields it and all others that have finished."""
    try:
        yield done.get(timeout=timeout)
        while True:
            yield done.get_nowait()
    except queue.Empty:
        return


def _result(future: Future[Any]) -> Made | BaseException | None:
    from concurrent.futures import CancelledError as Cancelled

    from distributed import CancelledError
    from distributed.scheduler import KilledWorker

    try:
        made: Made = future.result()
        return made
    except (KilledWorker, CancelledError, Cancelled, OSError):
        # Its workers died, or its result was lost with a worker: distributed raises OSError for communication errors.
        return None
    except Exception as e:
        return e


# The following code runs on workers.

_stops: dict[str, list[_native.Stop]] = {}
_stopped: deque[str] = deque(maxlen=64)
"""The last sweeps that ended early. When a sweep ends, one of its jobs may be in transit, or still parse its experiment."""
_lock = threading.Lock()


def work(
    sweep: str,
    version: str,
    experiment: tuple[str, str, str | None],
    numbers: list[int],
    keys: list[Key],
) -> Made:
    """Makes runs of an experiment, which must equal the driver's."""
    if version != _native.VERSION:
        raise VersionMismatch(
            f"found Spindle {_native.VERSION} on a worker, want {version} as on the driver; install "
            "the same on all of them"
        )
    native, known = _read(*experiment)
    for number, key in zip(numbers, keys, strict=True):
        if known[number] != key:
            raise VersionMismatch(f"found run {known[number]} on a worker, want {key}")
    mine = _native.Stop()
    with _lock:
        if sweep in _stopped:
            mine.set()
        _stops.setdefault(sweep, []).append(mine)
    try:
        return _native.run_jobs(native, numbers, mine)
    finally:
        with _lock:
            _stops[sweep].remove(mine)
            if not _stops[sweep]:
                del _stops[sweep]


@functools.lru_cache(maxsize=8)
def _read(text: str, name: str, variation: str | None) -> tuple[_native.Experiment, list[Key]]:
    native = Experiment.parse(text, name).with_variation(variation)._native
    return native, [Key(*key) for _, key in native.keys()]


def stop(sweep: str) -> None:
    """Ends the runs of a sweep on this worker, including runs that have not begun."""
    with _lock:
        _stopped.append(sweep)
        for one in _stops.get(sweep, []):
            one.set()
