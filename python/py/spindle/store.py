"""Finished runs: in memory, or as a Parquet dataset that a later sweep continues."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator
from itertools import repeat
from pathlib import Path
from typing import NamedTuple, Protocol

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from . import _native
from .errors import StoreError

__all__ = ["Key", "Memory", "Runs", "Store"]


class Key(NamedTuple):
    """The identity of a run within a version, independent of the experiment to which it belongs."""

    configuration: str
    """A hash of the scenario as parsed and of the transport's configuration."""
    transport: str
    seed: int
    part: int
    """Which part of the seed's flows, from 0."""
    parts: int
    """The number of parts."""


class Runs(Protocol):
    """Where finished runs are kept: lines of JSON, the records of the command line's ``--store``."""

    def __contains__(self, key: Key) -> bool: ...

    def put(self, lines: list[str], seconds: list[float]) -> None:
        """Keeps runs that were made together, with the seconds each took."""

    def lines(self, keys: Iterable[Key]) -> Iterator[str]:
        """The records of these runs, each of which must be there, in any order."""


class Memory:
    """Finished runs for as long as the program runs."""

    def __init__(self) -> None:
        self._lines: dict[Key, str] = {}

    def __contains__(self, key: Key) -> bool:
        return key in self._lines

    def put(self, lines: list[str], seconds: list[float]) -> None:
        for line in lines:
            self._lines[Key(*_native.head(line)[3])] = line

    def lines(self, keys: Iterable[Key]) -> Iterator[str]:
        return (self._lines[key] for key in keys)


_SCHEMA = pa.schema(
    [
        ("experiment", pa.string()),
        ("version", pa.string()),
        ("configuration", pa.string()),
        ("set", pa.string()),
        ("transport", pa.string()),
        ("seed", pa.uint64()),
        ("part", pa.uint64()),
        ("parts", pa.uint64()),
        ("flows", pa.uint64()),
        ("completed", pa.uint64()),
        ("aborted", pa.uint64()),
        ("seconds", pa.float64()),
        ("record", pa.string()),
    ]
)
_KEYS = ["version", *Key._fields]


class Store:
    """Finished runs as a Parquet dataset in a directory.

    A file for each job, ``VERSION/EXPERIMENT-HASH.parquet``, which appears completely or not at all. A row for each
    run: experiment, version, configuration (hash), ``set`` (what the sweep set, JSON), transport, seed,
    part, parts, flows, completed, aborted, seconds, and ``record``, the run as a line of the command line's
    ``--store``. ``pyarrow.dataset.dataset(path)`` reads it. Runs of other versions stay and are not used.

    The process that drives a sweep writes it, so that workers need no shared disk. Several processes may
    write at a time; each sees the runs that existed when it began, and its own.

    Parameters
    ----------
    path : path
        The directory; it is created if it does not exist.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self._own = self.path / _native.VERSION
        self._files: dict[Key, Path] = {}
        try:
            self._own.mkdir(parents=True, exist_ok=True)
        except OSError as e:
            raise StoreError(f"{self._own}: cannot be written to: {e}") from e
        files = sorted(str(file) for file in self._own.glob("*.parquet"))
        if files:
            table = self._read(files, [*_KEYS, "__filename"])
            self._index(map(Path, table["__filename"].to_pylist()), table)

    def __len__(self) -> int:
        return len(self._files)

    def __contains__(self, key: Key) -> bool:
        return key in self._files

    def put(self, lines: list[str], seconds: list[float]) -> None:
        rows = []
        for line, took in zip(lines, seconds, strict=True):
            experiment, version, point, key, (flows, completed, aborted) = _native.head(line)
            row = dict(experiment=experiment, version=version, set=point, seconds=took, record=line)
            row |= Key(*key)._asdict()
            rows.append(row | dict(flows=flows, completed=completed, aborted=aborted))
        table = pa.Table.from_pylist(rows, schema=_SCHEMA)
        keys = repr([tuple(row[k] for k in Key._fields) for row in rows])
        digest = hashlib.sha256(keys.encode()).hexdigest()[:16]
        file = self._own / f"{_safe(str(rows[0]['experiment']))}-{digest}.parquet"
        self._write(table, file)
        self._index(repeat(file, len(table)), table)

    def lines(self, keys: Iterable[Key]) -> Iterator[str]:
        by_file: dict[Path, set[Key]] = {}
        for key in keys:
            by_file.setdefault(self._files[key], set()).add(key)
        for file, wanted in by_file.items():
            table = self._read([str(file)], [*_KEYS, "record"])
            records = table["record"].to_pylist()
            yield from (r for k, r in zip(_keys(table), records, strict=True) if k in wanted)

    def _index(self, files: Iterable[Path], table: pa.Table) -> None:
        rows = zip(_keys(table), table["version"].to_pylist(), files, strict=True)
        self._files.update((key, file) for key, of, file in rows if of == _native.VERSION)

    def _read(self, files: list[str], columns: list[str]) -> pa.Table:
        try:
            return ds.dataset(files, format="parquet", schema=_SCHEMA).to_table(columns=columns)
        except (OSError, ValueError, pa.ArrowException) as e:
            raise StoreError(f"{self._own}: a file is not one of runs, take it away: {e}") from e

    def _write(self, table: pa.Table, file: Path) -> None:
        temporary = file.with_name(f".{file.name}.{os.getpid()}.tmp")
        try:
            with temporary.open("wb") as out:
                pq.write_table(table, out, compression="zstd")
                out.flush()
                os.fsync(out.fileno())
            os.replace(temporary, file)
        except OSError as e:
            temporary.unlink(missing_ok=True)
            raise StoreError(f"{file}: cannot be written: {e}") from e


def _keys(table: pa.Table) -> Iterator[Key]:
    return map(Key._make, zip(*(table[k].to_pylist() for k in Key._fields), strict=True))


def _safe(name: str) -> str:
    return "".join(c if c.isalnum() or c in "-_." else "-" for c in name).lstrip(".") or "runs"
