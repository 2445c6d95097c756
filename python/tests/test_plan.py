"""Jobs are of a second or more, and every run is in one."""

from __future__ import annotations

import io

from spindle.plan import JOB_S, LEAST_S, MOST_S, Batch, Group, Plan, Task
from spindle.progress import PAUSE_S, Progress, Status


def tasks(points: int, runs: int, experiment: int = 0) -> list[Task]:
    groups = [Group(experiment, p, "tcp") for p in range(points)]
    every = [g for g in groups for _ in range(runs)]
    return [Task(g, i) for i, g in enumerate(every)]


def play(plan: Plan, seconds: dict[int, float], slots: int = 4) -> list[Batch]:
    """Returns all jobs, finished in the order in which they were handed out. The point determines a run's duration."""
    done = []
    while batch := plan.next(slots):
        done.append(batch)
        plan.done(batch, [seconds[t.group.point] for t in batch.tasks])
    return done


def test_every_run_is_handed_out_once() -> None:
    every = tasks(7, 11) + tasks(3, 5, experiment=1)
    plan = Plan(every)
    batches = play(plan, dict.fromkeys(range(7), 0.3))
    assert [t for b in batches for t in b.tasks] == every
    assert all(t.group.experiment == b.experiment for b in batches for t in b.tasks)
    assert plan.share() == 1.0 and not plan


def test_jobs_take_a_second_or_more_once_durations_are_known() -> None:
    batches = play(Plan(tasks(10, 100)), dict.fromkeys(range(10), 0.01), slots=2)
    times = [0.01 * len(b.tasks) for b in batches]
    assert times[0] == 0.01, "nothing was known"
    assert all(LEAST_S - 0.02 <= t <= 2 * JOB_S for t in times[1:-1]), times
    # Runs of a slow point are separate jobs.
    slow = play(Plan(tasks(2, 6)), {0: 3.0, 1: 3.0})
    assert all(len(b.tasks) == 1 for b in slow)


def test_jobs_are_short_at_the_end() -> None:
    plan = Plan(tasks(1, 1000))
    first = plan.next(1)
    assert first is not None
    plan.done(first, [0.125])
    many, few = plan.next(slots=2), plan.next(slots=100)
    assert many is not None and few is not None
    assert len(many.tasks) == round(JOB_S / 0.125) and len(few.tasks) == round(LEAST_S / 0.125)


def test_jobs_are_long_in_a_long_sweep() -> None:
    plan = Plan(tasks(1, 20_000))
    first = plan.next(1)
    assert first is not None
    plan.done(first, [1.25])
    many, few = plan.next(slots=2), plan.next(slots=100)
    assert many is not None and len(many.tasks) == round(MOST_S / 1.25)
    assert few is not None and JOB_S < 1.25 * len(few.tasks) < MOST_S


def test_runs_of_a_lost_job_are_handed_out_first_and_separately() -> None:
    plan = Plan(tasks(1, 50))
    first = plan.next(1)
    assert first is not None
    plan.done(first, [0.1])
    lost = plan.next(1)
    assert lost is not None and len(lost.tasks) > 1
    plan.give_back(lost)
    again = [plan.next(1) for _ in lost.tasks]
    assert [b.tasks for b in again if b] == [[t] for t in lost.tasks]
    rest = plan.next(1)
    assert rest is not None and len(rest.tasks) > 1


def test_progress_without_a_terminal_prints_occasional_lines() -> None:
    now, out = [0.0], io.StringIO()
    progress = Progress("fig", 10, stream=out, clock=lambda: now[0])
    now[0] = PAUSE_S - 1
    progress.done(1, 0.1)
    assert out.getvalue() == ""
    now[0] = 60.0
    progress.done(1, 0.2)
    assert out.getvalue() == "fig: 2/10 runs, 4.0 min left\n"
    now[0] = 60.0 + PAUSE_S - 1
    progress.done(1, 0.3)
    progress.finish()
    assert out.getvalue().count("\n") == 1


def test_progress_on_a_terminal_redraws_its_line() -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    now, out = [0.0], Terminal()
    progress = Progress("fig", 10, stream=out, clock=lambda: now[0])
    now[0] = 1.0
    progress.done(5, 0.5)
    progress.finish()
    assert out.getvalue().startswith("\rfig: 5/10 runs, 0.0 min left") and "\n" not in out.getvalue()


def test_progress_can_be_reported_to_a_function() -> None:
    told: list[Status] = []
    now = [0.0]
    progress = Progress("fig", 4, told.append, clock=lambda: now[0])
    now[0] = 3.0
    progress.done(3, 0.75)
    assert told == [Status(3, 4, 3.0, 1.0)]
