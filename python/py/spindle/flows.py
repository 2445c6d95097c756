"""Single flows of one run, as in ``spindle trace``."""

from __future__ import annotations

import pyarrow as pa

from . import _native
from .errors import UnknownName
from .experiment import Experiment

__all__ = ["Trace", "flows", "trace"]


def flows(
    experiment: Experiment,
    transport: str,
    *,
    point: int = 0,
    seed: int | None = None,
    part: tuple[int, int] = (0, 1),
    slowest: int | None = None,
) -> pa.Table:
    """Repeats one run and returns a row for each of its flows.

    Parameters
    ----------
    experiment : Experiment
        The experiment.
    transport : str
        Any transport, of the experiment or not.
    point : int
        The point's number, from 0.
    seed : int, optional
        The first one of the experiment if not given.
    part : (int, int)
        Which of how many parts, from 0, that a seed's flows are split into; ``(3, experiment.parts)`` is a
        run of the sweep. All in one run if not given.
    slowest : int, optional
        Only so many of the slowest that are no background, those that did not complete first.

    Returns
    -------
    pyarrow.Table
        ``flow`` (the number in the order of arrival, from 0), ``bytes``, ``fct`` (ns; null: did not
        complete), ``losses`` (data segments dropped on their way to its client meanwhile), ``timeouts``,
        ``recoveries`` (proactive recovery segments), ``background``.
    """
    native, run = _run(experiment, transport, point, seed, part)
    table, order = _native.flows(native, run)
    all_flows = pa.table(table)
    return all_flows if slowest is None else all_flows.take(order[:slowest])


class Trace:
    """What happened to one flow, as its sender and the network saw it."""

    __slots__ = ("_native",)

    def __init__(self, native: _native.Trace) -> None:
        self._native = native

    @property
    def transport(self) -> str:
        """The transport that carried it."""
        return self._native.transport

    @property
    def number(self) -> int:
        """Its number in the order of arrival, from 0."""
        return self._native.number

    @property
    def title(self) -> str:
        """The flow's description."""
        return self._native.title

    @property
    def subflows(self) -> int:
        """The number of subflows of its connection."""
        return self._native.subflows

    @property
    def completion_ns(self) -> int:
        """Its completion time in nanoseconds."""
        return self._native.completion_ns

    @property
    def events(self) -> pa.Table:
        """A row for each event, in the order of time.

        ``time`` (ns since the request), ``subflow``, ``kind`` (a word), ``event`` (in words), ``offset``
        and ``length`` of the bytes concerned, ``cwnd`` and ``in_flight`` (bytes, of ``kind`` ``window``),
        ``note``.
        """
        return pa.table(self._native.events())

    def __str__(self) -> str:
        return self._native.text

    def __repr__(self) -> str:
        return f"<Trace of {self.title} under {self.transport}>"


def trace(
    experiment: Experiment,
    transport: str,
    flow: int,
    *,
    point: int = 0,
    seed: int | None = None,
    part: tuple[int, int] = (0, 1),
) -> Trace:
    """Follows one flow of a run, event by event.

    Parameters
    ----------
    flow : int
        Its number in the run, from 0, as in :func:`flows`.
    experiment, transport, point, seed, part
        The run, as for :func:`flows`.
    """
    native, run = _run(experiment, transport, point, seed, part)
    return Trace(_native.trace(native, run, flow))


def _run(
    experiment: Experiment,
    transport: str,
    point: int,
    seed: int | None,
    part: tuple[int, int],
) -> tuple[_native.Experiment, tuple[int, int, int, int]]:
    if point < 0:
        raise UnknownName(f"found point {point}, want 0 or more")
    native = experiment.with_transports(transport)._native
    seed = experiment.seeds.start if seed is None else seed
    return native, (point, seed, *part)
