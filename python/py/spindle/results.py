"""Results: tables, verdicts, and the command line's JSON."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from . import _native
from .experiment import Experiment

__all__ = ["Results"]

_CLAIMS = pa.schema(
    [(name, pa.string()) for name in ("id", "kind", "text", "paper", "measured", "verdict", "why")]
)


class Results:
    """All runs of an experiment.

    Tables are Arrow's; ``table.to_pandas()``, ``polars.from_arrow(table)``. Columns of numbers with a
    unit have it in their field's metadata (``unit``: ``us``, ``ns``, ``bit/s``, ``B``, ``1``). An axis of
    the sweep is a column of text as written. If it is a quantity, there is also a column ``AXIS.value`` in
    its base unit (microseconds, bits per second, bytes, shares from 0 to 1). The axis ``flows`` is
    ``set.flows``, since flows are counted as well.

    Attributes
    ----------
    experiment : Experiment
        The experiment of the runs.
    """

    __slots__ = ("_judged", "_native", "experiment")

    def __init__(
        self,
        experiment: Experiment,
        native: _native.Experiment,
        lines: Iterable[str],
        wall_s: float,
    ) -> None:
        self.experiment = experiment
        self._judged = bool(native.claims)
        runs = _native.Runs()
        for line in lines:
            runs.add(line)
        self._native = _native.Results(native, runs, wall_s)

    def summary(self, metrics: Sequence[str] | None = None) -> pa.Table:
        """A row for each transport at each point, over all its runs.

        Parameters
        ----------
        metrics : sequence of str, optional
            Names of metrics (:func:`spindle.metrics`); without, those that the command line prints and
            those of the experiment's columns and claims.

        Returns
        -------
        pyarrow.Table
            ``point``, axes, ``transport``, counts, and of each metric its value, ``METRIC.low`` and
            ``METRIC.high``: the 95 % interval by resampling runs, null with a single run.
        """
        return pa.table(self._native.summary(_names(metrics)))

    def runs(self, metrics: Sequence[str] | None = None, parts: bool = False) -> pa.Table:
        """A row for each seed of each transport at each point.

        Parameters
        ----------
        metrics : sequence of str, optional
            As for :meth:`summary`.
        parts : bool
            A row for each part that a seed's flows were split into: for each simulation.
        """
        return pa.table(self._native.runs(_names(metrics), parts))

    def completions(self) -> pa.Table:
        """A row for each completed flow: its completion time ``fct`` in nanoseconds.

        Rows of a run are in the order of issue. Losses, timeouts and sizes of single flows are not kept
        by a sweep; :func:`spindle.flows` has them.
        """
        return pa.table(self._native.completions())

    def write_completions(self, path: str | os.PathLike[str]) -> None:
        """Writes :meth:`completions` as a Parquet file, to be archived or cited.

        A row has the point, the axes, the transport and the seed of its flow. The metadata of the schema
        have what made the file: ``spindle.version`` (:data:`spindle.__version__`) and
        ``spindle.experiment`` (the identifier).

        Parameters
        ----------
        path : path
            The file; it is replaced if it exists.

        Raises
        ------
        OSError
            The file cannot be written.
        """
        table = self.completions()
        made = {"spindle.version": _native.VERSION, "spindle.experiment": self.experiment.id}
        table = table.replace_schema_metadata({**(table.schema.metadata or {}), **made})
        pq.write_table(table, path, compression="zstd")

    def claims(self) -> pa.Table:
        """A row for each claim with the measured values and the ``verdict``.

        A verdict is ``holds``, ``fails``, ``tied`` or ``not-checkable``, at 95 %.
        """
        return pa.Table.from_pylist(self.verdicts()["claims"], schema=_CLAIMS)

    def verdicts(self) -> dict[str, Any]:
        """The experiment's entry in the JSON of ``spindle reproduce --json``."""
        verdicts: dict[str, Any] = json.loads(self._native.verdicts())
        return verdicts

    def comparison(self) -> dict[str, Any]:
        """The JSON of ``spindle run --json``."""
        comparison: dict[str, Any] = json.loads(self._native.comparison())
        return comparison

    @property
    def all_well(self) -> bool:
        """Whether every flow finished as the experiment requires, with the bytes that were sent."""
        return self._native.all_well

    def __str__(self) -> str:
        text = self._native.text()
        return text + self._native.verdict_text() if self._judged else text

    def __repr__(self) -> str:
        return f"<Results of {self.experiment.id}>"


def _names(metrics: Sequence[str] | None) -> list[str] | None:
    if isinstance(metrics, str):
        raise TypeError(f'metrics: found "{metrics}", want a list of names')
    return None if metrics is None else list(metrics)
