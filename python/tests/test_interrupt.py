"""Python continues while the lab runs, and Ctrl-C ends the run."""

from __future__ import annotations

import _thread
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest
import spindle
from spindle import Experiment, _native


def test_python_continues_while_a_run_is_made(endless: Experiment) -> None:
    stop, ended = _native.Stop(), []

    def work() -> None:
        try:
            _native.run_jobs(endless._native, [0], stop)
        except spindle.Stopped as e:
            ended.append(e)

    thread = threading.Thread(target=work)
    thread.start()
    # If Python were locked until the run's end, this line would not be reached.
    assert thread.is_alive() and not stop.is_set()
    stop.set()
    thread.join()
    assert len(ended) == 1


def test_an_interrupt_ends_a_run_in_the_main_thread(endless: Experiment) -> None:
    timer = threading.Timer(0.2, _thread.interrupt_main)
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        _native.run_jobs(endless._native, [0], _native.Stop())


def test_an_interrupt_ends_a_single_flow_s_run(endless: Experiment) -> None:
    timer = threading.Timer(0.2, _thread.interrupt_main)
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        spindle.flows(endless, "tcp")


SCRIPT = """
import sys, spindle
e = spindle.Experiment.load(sys.argv[1])
try:
    # The signal may arrive as soon as this line is read.
    print("begun", flush=True)
    spindle.sweep(e, jobs=2, progress=False)
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""


def test_ctrl_c_ends_a_sweep(endless: Experiment, tmp_path: Path) -> None:
    file = tmp_path / "endless.toml"
    endless.save(file)
    program = [sys.executable, "-c", SCRIPT, str(file)]
    with subprocess.Popen(program, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "begun\n"
        process.send_signal(signal.SIGINT)
        assert process.stdout.read() == "interrupted\n"
    assert process.returncode == 0
