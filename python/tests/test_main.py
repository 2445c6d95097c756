"""``python -m spindle``: the command line's results and exit codes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from conftest import essence
from spindle import Experiment
from spindle.__main__ import main

# Experiments that take no time: formulas.
QUICK = ["caps-fig9", "caps-fig10"]


def test_reproduce_writes_the_verdicts_of_the_command_line(
    command: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    theirs = command("reproduce", *QUICK, "--quick", "--json", "-")
    assert main(["reproduce", *QUICK, "--quick", "--json", "-", "--jobs", "2"]) == 0
    assert capsys.readouterr().out == theirs
    printed = command("reproduce", *QUICK)
    file = tmp_path / "verdicts.json"
    assert main(["reproduce", *QUICK, "--json", str(file), "--store", str(tmp_path / "store")]) == 0
    assert capsys.readouterr().out.split() == printed.split()
    assert file.read_text() == theirs


@pytest.mark.parametrize(
    "flags",
    [["--reading", "ns-2"], ["--vary", "smaller-mss"], ["--reading", "ns-2", "--vary", "other-seeds"]],
)
def test_reproduce_accepts_the_readings_and_variations_of_the_command_line(
    command: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str], flags: list[str]
) -> None:
    file = tmp_path / "verdicts.json"
    theirs, printed = command("reproduce", *QUICK, *flags, "--json", "-"), command("reproduce", *QUICK, *flags)
    assert main(["reproduce", *QUICK, *flags, "--json", str(file)]) == 0
    assert capsys.readouterr().out.split() == printed.split()
    assert file.read_text() == theirs
    made = json.loads(theirs)
    given = dict(zip(flags[::2], flags[1::2], strict=True))
    assert (made.get("reading"), made.get("variation")) == (given.get("--reading"), given.get("--vary"))


def test_run_accepts_the_flags_of_the_command_line(
    command: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    flags = ["--transports", "tcp,mptcp", "--flows", "40", "--seeds", "2", "--loss", "2%"]
    flags += ["--set", "traffic.load=20Mbps", "--seed", "3", "--json", "-"]
    theirs = json.loads(command("compare", "fuso-fig4ab", *flags))
    assert main(["run", "fuso-fig4ab", *flags]) == 0
    assert essence(json.loads(capsys.readouterr().out)) == essence(theirs)


def test_a_mistake_prints_one_line_and_exits_with_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for arguments, told in [
        (["reproduce", "fuso-fig4"], 'found experiment "fuso-fig4"'),
        (["reproduce", "--paper", "cap"], 'did you mean "caps"'),
        (["reproduce"], "want ids of experiments"),
        (["reproduce", "caps-fig9", "--reading", "ns-22"], 'did you mean "ns-2"'),
        (["reproduce", "caps-fig9", "--reading", "syn-3s"], "not of caps"),
        (["reproduce", "caps-fig9", "--vary", "load"], "want one of other-seeds, "),
        (["run", str(tmp_path / "none.toml")], "none.toml"),
        (["run", "fuso-fig4ab", "--loss", "2ms"], "--loss: loss.rate: found"),
    ]:
        assert main(arguments) == 2
        err = capsys.readouterr().err
        assert told in err and err.count("\n") == 1 and err.startswith("error: ")
    with pytest.raises(SystemExit) as caught:
        main(["reproduce", "fuso-fig4ab", "--paper", "fuso"])
    assert caught.value.code == 2


def test_unfinished_flows_exit_with_1(
    small: Experiment, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # All links lose everything, so no packet gets through.
    tree = small.with_flows(3).to_dict()
    tree.pop("sweep")
    tree |= {"loss": {"on": "all", "rate": "100%"}, "transports": ["tcp"], "claims": [], "printed": []}
    tree["traffic"] |= {"connections": "new"}
    for key in ("per_pair", "warm_up"):
        tree["traffic"].pop(key, None)
    file = tmp_path / "lost.toml"
    Experiment.from_dict(tree).save(file)
    assert main(["run", str(file)]) == 1
    assert "not every flow finished" in capsys.readouterr().err
