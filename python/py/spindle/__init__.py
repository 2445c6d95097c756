"""Spindle's packet-level lab: experiments on how loss and congestion affect transports.

An :class:`Experiment` is a TOML file or an object; :func:`run` and :func:`sweep` run it, here or on a
dask cluster; :class:`Results` are Arrow tables, which pandas and polars take as they are. All numbers
are those of the command line of the same version, bit for bit.

Examples
--------
>>> import spindle
>>> e = spindle.Experiment.builtin("fuso-fig4ab").at_scale("quick")
>>> results = spindle.sweep(e)                        # doctest: +SKIP
>>> results.summary().to_pandas()                     # doctest: +SKIP
"""

from __future__ import annotations

from . import _native
from .errors import (
    ExperimentError,
    RunError,
    SpindleError,
    Stopped,
    StoreError,
    SweepError,
    UnknownName,
    VersionMismatch,
    WorkerLost,
)
from .experiment import Claim, Experiment, Point, experiments
from .flows import Trace, flows, trace
from .progress import Status
from .results import Results
from .store import Store
from .sweep import reproduce, run, sweep

__version__: str = _native.VERSION
"""The version that results carry: the package's version, and a fingerprint of the sources that results depend on."""

__all__ = [
    "Claim",
    "Experiment",
    "ExperimentError",
    "Point",
    "Results",
    "RunError",
    "SpindleError",
    "Status",
    "Stopped",
    "Store",
    "StoreError",
    "SweepError",
    "Trace",
    "UnknownName",
    "VersionMismatch",
    "WorkerLost",
    "balancers",
    "experiments",
    "explain",
    "flows",
    "metrics",
    "readings",
    "reproduce",
    "run",
    "sweep",
    "trace",
    "transports",
    "variations",
]


def explain(name: str | None = None) -> str:
    """Describes what a transport consists of, with the papers' sections. Without a name it lists all names.

    Parameters
    ----------
    name : str, optional
        A transport, optionally with variants after plus signs and a balancer after an ``@``:
        ``"fuso"``, ``"fuso+roundrobin"``, ``"tcp@rps"``.

    Raises
    ------
    UnknownName
        If there is none of that name.
    """
    return _native.explain(name)


def transports() -> list[str]:
    """Names of all transports."""
    return _native.transports()


def balancers() -> list[str]:
    """Names of all balancers."""
    return _native.balancers()


def metrics() -> dict[str, tuple[str, str]]:
    """All metrics by name, each with its title and unit.

    Units are ``us``, ``bit/s``, ``B``, and ``1`` for shares (0 to 1) and plain numbers.
    """
    return {name: (title, unit) for name, title, unit in _native.metrics()}


def readings(paper: str | None = None) -> dict[str, str]:
    """The titles of all readings by name: sets of choices for what a paper leaves open.

    :meth:`Experiment.with_reading` applies one.

    Parameters
    ----------
    paper : str, optional
        Only readings of this paper, such as ``caps``.
    """
    return {name: title for name, title, of in _native.readings() if paper is None or paper in of}


def variations() -> dict[str, str]:
    """The titles of all variations by name: changes of one kind of value, to see whether a verdict depends on it.

    :meth:`Experiment.with_variation` applies one.
    """
    return dict(_native.variations())
