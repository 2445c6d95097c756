"""The overhead of a dask cluster: the same sweep on a LocalCluster compared with plain threads, with jobs of one second.

    python bench/overhead.py [--jobs N] [--workers N] [--rounds N]

Prints each round's times and their ratio, and the median of ratios; exit code 1 if that is 1.05 or more.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time

import spindle
from distributed import Client, LocalCluster
from spindle import plan


def experiment(flows: int, jobs: int) -> spindle.Experiment:
    """An experiment with this number of runs and of flows per run."""
    e = spindle.Experiment.builtin("fuso-fig4ab").with_transports("fuso").with_loss("2%")
    return e.set("parts", 1).with_seeds(jobs).with_flows(flows)


def of_a_second(jobs: int) -> spindle.Experiment:
    """An experiment with this number of runs of about a second each, if each has a core of this machine."""
    flows = 2000
    for _ in range(3):
        [row] = spindle.sweep(experiment(flows, 1), jobs=1, progress=False).runs().to_pylist()
        started = time.perf_counter()
        spindle.sweep(experiment(flows, 1), jobs=1, progress=False)
        flows = max(1, round(flows / (time.perf_counter() - started)))
    print(f"{flows} flows a run, of {row['packet_hops'] / row['flows']:.0f} packet-hops each")
    return experiment(flows, jobs)


def seconds(e: spindle.Experiment, **how: object) -> float:
    started = time.perf_counter()
    spindle.sweep(e, progress=False, **how)
    return time.perf_counter() - started


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=40)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    # A run of about a second is a separate job.
    plan.JOB_S = plan.LEAST_S = 0.5
    e = of_a_second(options.jobs)
    local = LocalCluster(
        n_workers=options.workers, threads_per_worker=1, processes=True, dashboard_address=None
    )
    ratios = []
    with local, Client(local) as client:
        seconds(experiment(10, options.workers), client=client)
        for i in range(options.rounds):
            plain, far = seconds(e, jobs=options.workers), seconds(e, client=client)
            ratios.append(far / plain)
            print(f"round {i + 1}: plain {plain:.2f} s, cluster {far:.2f} s, ratio {ratios[-1]:.4f}")
    median = statistics.median(ratios)
    print(f"median ratio {median:.4f} over {options.rounds} rounds of {options.jobs} jobs")
    return int(median >= 1.05)


if __name__ == "__main__":
    sys.exit(main())
