"""``python -m spindle``: experiments on this machine or on a dask cluster."""

from __future__ import annotations

import argparse
import sys
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from . import _native, readings, variations
from .errors import ExperimentError, SpindleError, UnknownName
from .experiment import Experiment
from .sweep import Reproduction, reproduce, sweep

if TYPE_CHECKING:
    from distributed import Client

# A second attempt receives the messages of a cancellation only if another cancellation occurs at the same moment.
_CONNECTION_ATTEMPTS = 5


def main(arguments: list[str] | None = None) -> int:
    """Runs a command and returns its exit code: 0 if all went well, 1 if flows did not finish, 2 for bad usage."""
    options = _parser().parse_args(arguments)
    try:
        return _reproduce(options) if options.command == "reproduce" else _run(options)
    except (ExperimentError, UnknownName, FileNotFoundError) as e:
        print(f"error: {e}", file=sys.stderr)
        return 2
    except (SpindleError, OSError) as e:
        print(f"error: {e}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("stopped", file=sys.stderr)
        return 130


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m spindle", description=__doc__)
    parser.add_argument("--version", action="version", version=f"spindle {_native.VERSION}")
    commands = parser.add_subparsers(dest="command", required=True)

    common = argparse.ArgumentParser(add_help=False)
    common.add_argument("--scheduler", metavar="ADDRESS", help="dask scheduler, as in tcp://head:8786")
    common.add_argument("--jobs", type=_count, metavar="N", help="threads without --scheduler")
    common.add_argument("--store", type=Path, metavar="DIR", help="keep runs there, and go on with them")
    common.add_argument("--json", type=Path, metavar="PATH", help="write JSON to a file, or -")
    common.add_argument("--seed", metavar="S", help="first seed")

    one = commands.add_parser("run", parents=[common], help="run an experiment")
    one.add_argument("file", metavar="FILE.toml|ID")
    one.add_argument("--set", action="append", default=[], metavar="KEY=VALUE")
    one.add_argument("--transports", metavar="A,B@RPS")
    one.add_argument("--flows", metavar="N")
    one.add_argument("--seeds", metavar="N")
    one.add_argument("--loss", metavar="P")

    many = commands.add_parser(
        "reproduce", parents=[common], help="reproduce figures and check their claims"
    )
    which = many.add_mutually_exclusive_group()
    which.add_argument("ids", nargs="*", default=[], metavar="ID")
    which.add_argument("--paper", metavar="PAPER")
    which.add_argument("--all", action="store_true")
    scale = many.add_mutually_exclusive_group()
    for name in ("quick", "full", "paper-scale"):
        scale.add_argument(f"--{name}", dest="scale", action="store_const", const=name)
    many.set_defaults(scale="quick")
    many.add_argument("--reading", metavar="NAME", help="a named set of choices for what the paper leaves open")
    many.add_argument("--vary", metavar="NAME", help="change one kind of value in all experiments")
    return parser


def _count(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"found {number}, want 1 or more")
    return number


def _client(options: argparse.Namespace, stack: ExitStack) -> Client | None:
    if options.scheduler is None:
        return None
    return stack.enter_context(_connected(options.scheduler))


def _connected(scheduler: str) -> Client:
    """A client of the scheduler.

    The scheduler tells all clients when one of them cancels tasks. If it does so while it answers a new client, both
    messages arrive as one, and `distributed` fails an assertion, since it expects the answer alone.
    """
    from distributed import Client

    for _ in range(_CONNECTION_ATTEMPTS - 1):
        with suppress(AssertionError):
            return Client(scheduler)
    return Client(scheduler)


def _say(options: argparse.Namespace, text: str) -> None:
    """Prints results, unless standard output is reserved for JSON."""
    if options.json != Path("-"):
        print(text)


def _write(options: argparse.Namespace, text: str) -> None:
    if options.json == Path("-"):
        print(text)
    elif options.json is not None:
        options.json.write_text(text + "\n", encoding="utf-8")


def _code(all_well: bool) -> int:
    if not all_well:
        text = "not every flow finished; see the completed, aborted and corrupted counts"
        print(f"error: {text}", file=sys.stderr)
    return 0 if all_well else 1


def _run(options: argparse.Namespace) -> int:
    is_file = options.file.endswith(".toml") or Path(options.file).exists()
    found = Experiment.load(options.file) if is_file else Experiment.builtin(options.file)
    flags = {k: getattr(options, k) for k in ("transports", "flows", "seeds", "seed", "loss")}
    experiment = found._with(set=tuple(options.set), **flags)
    with ExitStack() as stack:
        client = _client(options, stack)
        results = sweep(experiment, client, options.store, options.jobs)
    _say(options, str(results).rstrip("\n"))
    _write(options, results._native.comparison())
    return _code(results.all_well)


def _announce(options: argparse.Namespace) -> None:
    """Prints the reading and the variation that are asked for."""
    if options.reading:
        _say(options, f"reading {options.reading}: {readings()[options.reading]}\n")
    if options.vary:
        _say(options, f"variation {options.vary}: {variations()[options.vary]}\n")


def _reproduce(options: argparse.Namespace) -> int:
    if not (options.ids or options.paper or options.all):
        raise UnknownName("want ids of experiments, --paper PAPER or --all")
    ids = _native.reproductions(options.ids, options.paper, options.all)
    built_in = (Experiment.builtin(id) for id in ids)
    flags = {"scale": options.scale, "seed": options.seed, "reading": options.reading, "variation": options.vary}
    experiments = [e._with(**flags) for e in built_in]
    _announce(options)
    name = options.paper or (ids[0] if len(ids) == 1 else "reproduce")
    gathered = Reproduction()
    with ExitStack() as stack:
        client = _client(options, stack)
        for results in reproduce(
            experiments, client, options.store, options.jobs, name=name
        ):
            if not gathered.add(results):
                _say(options, str(results))
    arena = gathered.arena()
    if arena is not None:
        _say(options, arena.rstrip("\n"))
    _write(options, gathered.to_json(options.scale))
    return _code(gathered.all_well)


if __name__ == "__main__":
    sys.exit(main())
