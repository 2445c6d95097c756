"""Experiments: topology, traffic, transports, the sweep, and the claims to check."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from . import _native, _toml

__all__ = ["Claim", "Experiment", "Point", "experiments"]


class Point(NamedTuple):
    """A point of a sweep."""

    number: int
    """Its number, from 0."""
    set: dict[str, str]
    """The sweep's values at this point, by axis, as written."""
    configuration: str
    """A hash of everything that decides the point's results except transport and seed."""


class Claim(NamedTuple):
    """A claim that is checked against the runs."""

    id: str
    kind: str
    """``numeric`` or ``ordering``."""
    text: str
    paper: str
    """The paper's statement, with the section."""
    metric: str
    """What is compared, in words."""


@dataclass(frozen=True)
class _Source:
    """A text and the settings that override it, like the command line's flags."""

    name: str
    text: str
    directory: str
    set: tuple[str, ...] = ()
    loss: str | None = None
    flows: str | None = None
    seeds: str | None = None
    seed: str | None = None
    transports: str | None = None
    scale: str | None = None
    reading: str | None = None
    variation: str | None = None

    def read(self) -> _native.Experiment:
        return _native.Experiment(
            self.name,
            self.text,
            self.directory,
            set=list(self.set),
            loss=self.loss,
            flows=self.flows,
            seeds=self.seeds,
            seed=self.seed,
            transports=self.transports,
            scale=self.scale,
            reading=self.reading,
            variation=self.variation,
        )


def _comma(values: str | list[str] | tuple[str, ...]) -> str:
    return values if isinstance(values, str) else ",".join(values)


class Experiment:
    """An experiment, ready to run. It is immutable: methods that change it return another one.

    Made by :meth:`load`, :meth:`parse`, :meth:`builtin` or :meth:`from_dict`. The format of files is
    described in ``docs/reference/experiment-file.md``.

    Examples
    --------
    >>> e = Experiment.builtin("fuso-fig4ab").at_scale("quick")
    >>> e = e.with_transports("tcp", "fuso").set("traffic.load", "20Mbps")
    >>> len(e.points())
    6
    """

    __slots__ = ("_native", "_source")

    def __init__(self, source: _Source) -> None:
        self._source = source
        self._native = source.read()

    # Reading.

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Experiment:
        """Reads an experiment from a file.

        Parameters
        ----------
        path : path
            A TOML file; other files that it names are searched in its directory.

        Raises
        ------
        ExperimentError
            The first mistake in it.
        OSError
            If it cannot be read.
        """
        path = Path(path)
        text = path.read_text(encoding="utf-8")
        return cls(_Source(str(path), text, str(path.parent)))

    @classmethod
    def parse(
        cls,
        text: str,
        name: str = "experiment.toml",
        directory: str | os.PathLike[str] = ".",
    ) -> Experiment:
        """Reads an experiment from a text.

        Parameters
        ----------
        text : str
            TOML.
        name : str
            What errors call it; without an ``id`` in the text also the experiment's.
        directory : path
            Where files that it names are searched.

        Raises
        ------
        ExperimentError
            The first mistake in it.
        """
        return cls(_Source(name, text, os.fspath(directory)))

    @classmethod
    def builtin(cls, id: str) -> Experiment:
        """An experiment that comes with Spindle; :func:`spindle.experiments` lists them.

        Raises
        ------
        UnknownName
            If there is none of that id.
        """
        path, text = _native.builtin(id)
        return cls(_Source(path, text, "."))

    @classmethod
    def from_dict(cls, tree: Mapping[str, Any], name: str = "experiment") -> Experiment:
        """An experiment from nested mappings and lists, as the TOML file has them.

        Entries that are ``None`` are left out. The order of a sweep's axes is that of the mapping.

        Raises
        ------
        ExperimentError
            The first mistake in it; its line is the number of the entry on the first level.
        TypeError
            A value that TOML does not have.
        """
        return cls.parse(_toml.dumps(tree), name)

    # Changing.

    def _with(self, **changes: Any) -> Experiment:
        return Experiment(replace(self._source, **changes))

    def at_scale(self, scale: str | None) -> Experiment:
        """The experiment at a scale of ``spindle reproduce``.

        What was set stays set.

        Parameters
        ----------
        scale : {"quick", "full", "paper-scale"} or None
            A paper in five minutes on two cores, in a hundred minutes, or the paper's own counts;
            ``None``: what the file says.
        """
        return self._with(scale=scale)

    def with_reading(self, name: str | None) -> Experiment:
        """The experiment under a reading of its paper, as by ``spindle reproduce --reading``.

        A reading is a named set of choices for what a paper leaves open. What was set stays set.

        Parameters
        ----------
        name : str or None
            A name of :func:`spindle.readings`, such as ``"ns-2"``; ``None``: the choices of the file.

        Raises
        ------
        UnknownName
            If there is none of that name, or if it is a reading of other papers only.
        """
        return self._with(reading=name)

    def with_variation(self, name: str | None) -> Experiment:
        """The experiment with one kind of value changed, as by ``spindle reproduce --vary``.

        The change is applied after everything else. It is not part of :meth:`to_toml`, since it changes values
        that the file may not contain; pickling keeps it.

        Parameters
        ----------
        name : str or None
            A name of :func:`spindle.variations`, such as ``"half-buffers"``; ``None``: no change.

        Raises
        ------
        UnknownName
            If there is none of that name.
        """
        return self._with(variation=name)

    def set(self, key: str, value: Any) -> Experiment:
        """The experiment with a key set, as by ``--set``.

        Parameters
        ----------
        key : str
            A dotted key such as ``traffic.load``, or the short name of an axis such as ``loss``. If it
            is swept, the value takes the place of the axis' values.
        value : str, number, bool or list
            Text with its unit (``"20Mbps"``, ``"2%"``), a number, or a list of them for an axis.
        """
        if isinstance(value, Mapping):
            raise TypeError(f"{key}: found a mapping, want a value; set its keys one by one")
        return self._with(set=(*self._source.set, f"{key}={_toml.value(value)}"))

    def with_transports(self, *names: str) -> Experiment:
        """The experiment with these transports, such as ``"fuso"`` or ``"tcp@rps"``."""
        return self._with(transports=_comma(names))

    def with_loss(self, *rates: str) -> Experiment:
        """The experiment at these loss rates, such as ``"2%"``."""
        return self._with(loss=_comma(rates))

    def with_flows(self, flows: int) -> Experiment:
        """The experiment with this number of flows (incast: rounds) per transport and seed."""
        return self._with(flows=str(flows))

    def with_seeds(self, seeds: int, first: int | None = None) -> Experiment:
        """The experiment with this number of seeds; the first seed is unchanged if not given.

        If the file does not say ``parts``, a seed's flows are split into so many that all seeds make
        20 runs, so that another number of seeds makes other runs.
        """
        first_text = self._source.seed if first is None else str(first)
        return self._with(seeds=str(seeds), seed=first_text)

    # Properties.

    @property
    def id(self) -> str:
        """Its id, such as ``fuso-fig4ab``, or the file's name."""
        return self._native.id

    @property
    def title(self) -> str:
        """One line."""
        return self._native.title

    @property
    def paper(self) -> str | None:
        """Which paper it belongs to."""
        return self._native.paper

    @property
    def source(self) -> str:
        """The paper's section and figure, and entries of docs/mechanisms.md."""
        return self._native.source

    @property
    def asks(self) -> str:
        """The question it asks."""
        return self._native.asks

    @property
    def notes(self) -> list[str]:
        """Remarks."""
        return self._native.notes

    @property
    def scale(self) -> str | None:
        """The scale of the experiment, if one was selected."""
        return self._source.scale

    @property
    def reading(self) -> str | None:
        """The reading of the paper, if one was selected."""
        return self._source.reading

    @property
    def variation(self) -> str | None:
        """The variation, if one was selected."""
        return self._source.variation

    @property
    def transports(self) -> list[str]:
        """The transports, in order."""
        return self._native.transports

    @property
    def seeds(self) -> range:
        """The seeds."""
        first = self._native.seed
        return range(first, first + self._native.seeds)

    @property
    def parts(self) -> int:
        """Parts that each seed's flows are split into, each a separate simulation."""
        return self._native.parts

    @property
    def claims(self) -> list[Claim]:
        """The claims that its runs are checked against."""
        return [Claim(*c) for c in self._native.claims]

    def points(self) -> list[Point]:
        """The points of the sweep, the first axis varying slowest."""
        points = enumerate(self._native.points)
        return [Point(i, dict(pairs), configuration) for i, (pairs, configuration) in points]

    # Writing.

    def to_toml(self) -> str:
        """The experiment as a file. It contains all settings and the files that it names, but no comments.

        Read again, anywhere, it is the same experiment, except for a variation. The tables of scales stay in it
        unless it was put at one.
        """
        return self._native.to_toml()

    def to_dict(self) -> dict[str, Any]:
        """The experiment as nested mappings and lists."""
        return tomllib.loads(self.to_toml())

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes :meth:`to_toml` to a file."""
        Path(path).write_text(self.to_toml(), encoding="utf-8")

    def __reduce__(self) -> tuple[Any, ...]:
        return _restored, self._written

    @property
    def _written(self) -> tuple[str, str, str | None]:
        """All that another process needs: text, name, variation."""
        return self.to_toml(), self._source.name, self.variation

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Experiment):
            return False
        return (self.to_toml(), self.variation) == (other.to_toml(), other.variation)

    def __hash__(self) -> int:
        return hash((self.to_toml(), self.variation))

    def __repr__(self) -> str:
        n = self._native
        points = len(n.points)
        what = f"{points} points, {len(n.transports)} transports, seeds {n.seed} to"
        return f"<Experiment {n.id}: {what} {n.seed + n.seeds - 1}>"


def _restored(text: str, name: str, variation: str | None) -> Experiment:
    """The experiment in another process."""
    return Experiment(_Source(name, text, ".", variation=variation))


def experiments(paper: str | None = None) -> list[str]:
    """Ids of the experiments that come with Spindle.

    Parameters
    ----------
    paper : str, optional
        Only those of this paper: ``fuso``, ``cofuso``, ``mmptcp``, ``caps``; ``arena`` for those
        that stand in one table.
    """
    return [id for id, of in _native.experiments() if paper is None or of == paper]
