"""Running experiments: here or on a cluster, from a store or into one."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from . import _native
from .errors import UnknownName, WorkerLost
from .experiment import Experiment
from .local import Local, Made, cores
from .plan import Batch, Group, Plan, Task
from .progress import Progress, Status
from .results import Results
from .store import Key, Memory, Runs, Store

if TYPE_CHECKING:
    from distributed import Client

__all__ = ["Reproduction", "reproduce", "run", "sweep"]

TICK_S = 0.5
"""The longest single wait for jobs, in seconds."""
ATTEMPTS = 3
"""How often a run with which workers are lost is tried."""

Show = bool | Callable[[Status], None]
Place = str | os.PathLike[str] | Store | None


class _Executor(Protocol):
    def slots(self) -> int: ...
    def room(self) -> int: ...
    def submit(self, batch: Batch) -> None: ...
    def wait(self, timeout: float) -> list[tuple[Batch, Made | BaseException | None]]: ...
    def close(self) -> None: ...


def run(
    experiment: Experiment,
    point: int | None = None,
    transport: str | None = None,
    seed: int | None = None,
    *,
    jobs: int | None = None,
    progress: Show = False,
) -> Results:
    """Runs a part of an experiment on this machine.

    Parameters
    ----------
    experiment : Experiment
        The experiment.
    point : int, optional
        Only the point of this number, from 0.
    transport : str, optional
        Only this one of its transports.
    seed : int, optional
        Only this one of its seeds. A seed's flows are split into the same parts as in the whole sweep, so
        that these runs are among those of the sweep.
    jobs : int, optional
        Threads; one per core if not given.
    progress : bool or callable
        As for :func:`sweep`.

    Returns
    -------
    Results
        The results; claims are checked only if all of it is run. ``point`` in tables counts from 0 among
        the points that were run.
    """
    _accept("point", point, range(len(experiment.points())))
    _accept("transport", transport, experiment.transports)
    _accept("seed", seed, experiment.seeds)
    if point is None and transport is None and seed is None:
        native = experiment._native
    else:
        points = None if point is None else [point]
        transports = None if transport is None else [transport]
        native = experiment._native.only(points, transports, seed)
    runs = Memory()
    took = _execute([native], runs, Local([native], _threads(jobs)), experiment.id, progress)
    return _results(experiment, native, runs, took)


def sweep(
    experiment: Experiment,
    client: Client | None = None,
    store: Place = None,
    jobs: int | None = None,
    progress: Show = True,
) -> Results:
    """Runs all of an experiment, here or on a cluster.

    Parameters
    ----------
    experiment : Experiment
        The experiment.
    client : distributed.Client, optional
        A dask cluster whose workers have the same version of this package; without, threads of this process.
    store : path or Store, optional
        A directory for finished runs. Stored runs are not repeated: a stopped sweep continues where it
        was, and a sweep with other parameters makes only the runs that depend on them.
    jobs : int, optional
        Threads without a client; one per core if not given.
    progress : bool or callable
        Show the progress and the time left on standard error; a callable gets a :class:`Status` after
        each job.

    Returns
    -------
    Results
        The same, to the bit, as those of the command line, regardless of where the runs were made.

    Raises
    ------
    SweepError
        :class:`StoreError`, :class:`VersionMismatch`, :class:`WorkerLost`.
    RunError
        A run that cannot be made.
    KeyboardInterrupt
        Ctrl-C: finished runs are in the store, runs in progress end at once.
    """
    runs = _runs(store)
    executor = _executor([experiment], client, jobs)
    took = _execute([experiment._native], runs, executor, experiment.id, progress)
    return _results(experiment, experiment._native, runs, took)


class Reproduction:
    """The verdicts on the claims of several experiments, as ``spindle reproduce`` gathers them.

    All experiments have the same reading and the same variation.
    """

    def __init__(self) -> None:
        self._native = _native.Reproduction()
        self._under: tuple[str | None, str | None] | None = None
        self.all_well = True

    def add(self, results: Results) -> bool:
        """Adds the results of an experiment. Returns whether it is a scenario of a joint table.

        Raises
        ------
        ValueError
            If the reading or the variation is not that of the other experiments.
        """
        under = (results.experiment.reading, results.experiment.variation)
        if self._under not in (None, under):
            raise ValueError(
                f"{results.experiment.id}: found reading and variation {under}, want {self._under} as before"
            )
        self._under = under
        self.all_well &= results.all_well
        return self._native.add(results._native)

    def to_json(self, scale: str = "quick") -> str:
        """The JSON of ``spindle reproduce --json`` at that scale, with the experiments' reading and variation."""
        return self._native.to_json(scale, *(self._under or (None, None)))

    def arena(self) -> str | None:
        """The joint table as the command line prints it, if there is one."""
        return self._native.arena_text()


def reproduce(
    experiments: Iterable[Experiment],
    client: Client | None = None,
    store: Place = None,
    jobs: int | None = None,
    progress: Show = True,
    name: str = "reproduce",
) -> Iterator[Results]:
    """Runs several experiments as one sweep. Common runs are made once, and no experiment waits for another.

    Parameters
    ----------
    experiments : iterable of Experiment
        The experiments.
    client, store, jobs, progress
        As for :func:`sweep`.
    name : str
        The name shown in the progress.

    Yields
    ------
    Results
        Those of each experiment, in order, when all have been run.
    """
    experiments = list(experiments)
    runs = _runs(store)
    natives = [e._native for e in experiments]
    took = _execute(natives, runs, _executor(experiments, client, jobs), name, progress)
    for experiment in experiments:
        yield _results(experiment, experiment._native, runs, took)


def _accept(name: str, found: object, accepted: Iterable[object]) -> None:
    accepted = list(accepted)
    if found is not None and found not in accepted:
        shown = f'"{found}"' if isinstance(found, str) else found
        if accepted and all(isinstance(a, int) for a in accepted):
            want = f"{accepted[0]} to {accepted[-1]}"
        else:
            want = "one of " + ", ".join(map(str, accepted))
        raise UnknownName(f"{name}: found {shown}, want {want}")


def _threads(jobs: int | None) -> int:
    if jobs is not None and jobs < 1:
        raise ValueError(f"jobs: found {jobs}, want 1 or more")
    return cores() if jobs is None else jobs


def _runs(store: Place) -> Runs:
    if store is None:
        return Memory()
    return store if isinstance(store, Store) else Store(Path(store))


def _executor(experiments: list[Experiment], client: Client | None, jobs: int | None) -> _Executor:
    if client is None:
        return Local([e._native for e in experiments], _threads(jobs))
    from .cluster import Cluster

    return Cluster(experiments, client)


def _results(
    experiment: Experiment, native: _native.Experiment, runs: Runs, took: float
) -> Results:
    keys = dict.fromkeys(Key(*key) for _, key in native.keys())
    return Results(experiment, native, runs.lines(keys), took)


def _missing(natives: list[_native.Experiment], runs: Runs) -> Iterator[Task]:
    """Returns the missing runs, each once even if several experiments need it."""
    seen: set[Key] = set()
    for i, native in enumerate(natives):
        for number, (point, raw) in enumerate(native.keys()):
            key = Key(*raw)
            if key not in runs and key not in seen:
                seen.add(key)
                yield Task(Group(i, point, key.transport), number)


def _execute(
    natives: list[_native.Experiment],
    runs: Runs,
    executor: _Executor,
    name: str,
    show: Show,
) -> float:
    """Makes all missing runs and returns the seconds that this took."""
    plan = Plan(_missing(natives, runs))
    progress = Progress(name, plan.runs, show)
    lost: dict[tuple[int, int], int] = {}
    out = 0
    try:
        while plan or out:
            while out < executor.room() and (batch := plan.next(executor.slots())):
                executor.submit(batch)
                out += 1
            for batch, made in executor.wait(TICK_S):
                out -= 1
                if made is None:
                    _again(batch, plan, lost)
                    continue
                if isinstance(made, BaseException):
                    raise made
                lines, seconds = [line for line, _ in made], [s for _, s in made]
                runs.put(lines, seconds)
                plan.done(batch, seconds)
                progress.done(len(made), plan.share())
    finally:
        progress.finish()
        executor.close()
    return progress.elapsed_s


def _again(batch: Batch, plan: Plan, lost: dict[tuple[int, int], int]) -> None:
    """Repeats the runs of a job whose workers were lost, unless this has happened to one of them too often."""
    for task in batch.tasks:
        key = (batch.experiment, task.number)
        lost[key] = lost.get(key, 0) + 1
        if lost[key] >= ATTEMPTS:
            raise WorkerLost(
                f"workers were lost {ATTEMPTS} times with the run of {task.group.transport} at point "
                f"{task.group.point}; do they have memory for it?"
            )
    plan.give_back(batch)
