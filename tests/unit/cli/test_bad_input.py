"""Bad input on the command line: one clear line, then `Try:`, exit code 2, no traceback, nothing on standard output."""

import sys
from pathlib import Path

import pytest

from rota.cli.main import main

GOOD = "submit_time,gpus,duration\n0,1,10\n5,2,20\n"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "good.csv").write_text(GOOD)
    (tmp_path / "wide.csv").write_text("submit_time,gpus,duration\n0,99,10\n")
    (tmp_path / "text.csv").write_text("submit_time,gpus,duration\n0,1,10\n5,two,20\n")
    (tmp_path / "negative.csv").write_text("submit_time,gpus,duration\n0,1,-10\n")
    (tmp_path / "short.csv").write_text("submit_time,gpus,duration\n0,1\n")
    (tmp_path / "empty.csv").write_text("")
    (tmp_path / "header.csv").write_text("submit_time,gpus,duration\n")
    (tmp_path / "column.csv").write_text("submit_time,gpu,duration\n0,1,10\n")
    (tmp_path / "binary.csv").write_bytes(b"\xff\xfe\x00\x01")
    (tmp_path / "philly.csv").write_text("timestamp,duration,num_gpus,gpu_time,cluster\nyesterday,1,1,1,a\n")
    (tmp_path / "rates.csv").write_text("profile,accelerator,gpus,steps_per_second\nx,V100,1,fast\n")
    (tmp_path / "broken.py").write_text("def oops(:\n")
    (tmp_path / "raises.py").write_text("raise RuntimeError('no')\n")
    (tmp_path / "nothing.py").write_text("x = 1\n")
    (tmp_path / "two.py").write_text("class A:\n    def allocate(self, v): ...\nclass B:\n    def allocate(self, v): ...\n")
    (tmp_path / "wrong.py").write_text("class Wrong:\n    def allocate(self, view): return [1, 2]\n")
    (tmp_path / "raising.py").write_text("class Raising:\n    def allocate(self, view): return 1 / 0\n")
    (tmp_path / "needs.py").write_text("class Needs:\n    def __init__(self, x): ...\n    def allocate(self, v): ...\n")
    (tmp_path / "good.yaml").write_text("nodes: [{accelerator: V100, gpus: 8}]\n")
    (tmp_path / "floor.yaml").write_text("nodes:\n  - {accelerator: V100, gpu: 8}\n")
    (tmp_path / "huge.yaml").write_text(f"nodes: [{{accelerator: V100, gpus: 1{'0' * 400}}}]\n")
    (tmp_path / "twice.yaml").write_text("nodes: [{accelerator: V100, gpus: 8}]\nprices: {V100: 1, v100: 2}\n")
    (tmp_path / "job.yaml").write_text("run: train\ngpu: 4\n")
    (tmp_path / "history.csv").write_text("duration\n10\nlong\n")
    return tmp_path


def rota(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, *words: str) -> tuple[int, str, str]:
    monkeypatch.setattr(sys, "argv", ["rota", *words])
    with pytest.raises(SystemExit) as stop:
        main()
    out, err = capsys.readouterr()
    return int(stop.value.code or 0), out, err


SIM = ("sim", "--trace", "good.csv")
UP = ("up", "--home", "home", "--pretend", "2xV100")

CASES: list[tuple[tuple[str, ...], tuple[str, ...]]] = [
    # Traces
    (("sim", "--trace", "absent.csv"), ("absent.csv",)),
    (("sim", "--trace", "."), (".",)),
    (("sim", "--trace", "empty.csv"), ("empty.csv",)),
    (("sim", "--trace", "header.csv"), ("header.csv",)),
    (("sim", "--trace", "binary.csv"), ("binary.csv",)),
    (("sim", "--trace", "text.csv"), ("text.csv:3", "gpus", "'two'")),
    (("sim", "--trace", "negative.csv"), ("negative.csv:2", "duration", "-10")),
    (("sim", "--trace", "short.csv"), ("short.csv:2",)),
    (("sim", "--trace", "column.csv"), ("column.csv", "gpu")),
    (("sim", "--trace", "philly.csv"), ("philly.csv:2", "timestamp", "yesterday")),
    (("sim", "--trace", "wide.csv", "--cluster", "4xV100"), ("wide.csv", "99", "largest pool it accepts has 4")),
    (("sim", "--trace", "demmo"), ("demmo", "demo")),
    (("sim", "--trace", "synthetic:jobs=none"), ("jobs", "none")),
    (("sim", "--trace", "synthetic:job=5"), ("job", "jobs")),
    ((*SIM, "--format", "gavel"), ("good.csv:1", "gavel", "7, 10 or 12")),
    ((*SIM, "--format", "phily"), ("phily", "philly")),
    ((*SIM, "--where", "tenant=a"), ("tenant",)),
    ((*SIM, "--where", "gpus"), ("--where", "'gpus'")),
    ((*SIM, "--where", "gpus=77"), ("gpus", "77")),
    ((*SIM, "--first", "0"), ("first", "0")),
    ((*SIM, "--window", "5"), ("--window", "'5'")),
    ((*SIM, "--window", "1:9"), ("1:9", "2 jobs")),
    ((*SIM, "--profile", "absent.csv"), ("absent.csv",)),
    ((*SIM, "--profile", "rates.csv"), ("rates.csv:2", "steps_per_second", "fast")),
    # Clusters
    ((*SIM, "--cluster", ""), ("cluster",)),
    ((*SIM, "--cluster", "V100"), ("cluster", "V100")),
    ((*SIM, "--cluster", "0xV100"), ("0xV100", "at least 1")),
    ((*SIM, "--cluster", "4xV100 +"), ("cluster",)),
    ((*SIM, "--cluster", "4xV100 5xK80"), ("4xV100 5xK80",)),
    ((*SIM, "--cluster", "-4xV100"), ("-4xV100",)),
    ((*SIM, "--cluster", "9999999xV100"), ("1,000,000",)),
    ((*SIM, "--cluster", "2x(4xV100"), ("2x(4xV100",)),
    ((*SIM, "--cluster", "absent.yaml"), ("absent.yaml", "no such file")),
    ((*SIM, "--cluster", "floor.yaml"), ("floor.yaml:2", "gpu", "Closest: gpus")),
    ((*SIM, "--cluster", "good.yaml", "--policy", "fifo:x=1"), ("No option of fifo 'x'",)),
    # Policies, placers, presets
    ((*SIM, "--elastic", "batsch"), ("batsch", "Closest: batch")),
    ((*SIM, "--policy", "optimus:interval_seconds=0"), ("interval_seconds", "1 or more")),
    ((*SIM, "--policy", "goodput:interval_seconds=0.5"), ("interval_seconds", "1 or more")),
    ((*SIM, "--policy", "goodput:batch=smallest"), ("batch", "smallest")),
    ((*SIM, "--policy", "tiresas"), ("tiresas", "Closest: tiresias")),
    ((*SIM, "--policy", ""), ("policy",)),
    ((*SIM, "--policy", "tiresias:threshold=5"), ("threshold", "Closest: thresholds")),
    ((*SIM, "--policy", "tiresias:thresholds=a/b"), ("thresholds", "a/b")),
    ((*SIM, "--policy", "tiresias:promote"), ("promote", "key=value")),
    ((*SIM, "--policy", "tiresias:promote=-1"), ("promote", "-1")),
    ((*SIM, "--policy", "tiresias:promote=1,promote=2"), ("promote", "twice")),
    ((*SIM, "--policy", "tiresias:thresholds=7200/3250"), ("thresholds", "7200/3250", "rise")),
    ((*SIM, "--policy", "gittins:thresholds=-5"), ("thresholds", "-5")),
    ((*SIM, "--policy", "tiresias:thresholds=nan"), ("thresholds", "nan")),
    ((*SIM, "--policy", "las:quantum_seconds=0"), ("quantum_seconds", "0")),
    ((*SIM, "--policy", "fifo+spread", "--placer", "random"), ("placer", "twice")),
    ((*SIM, "--policy", "./needs.py:Needs"), ("needs.py:Needs", "argument")),
    ((*SIM, "--policy", "las:service=hours"), ("service", "hours", "gpu-seconds")),
    ((*SIM, "--policy", "fifo:backfill=maybe"), ("backfill", "maybe")),
    ((*SIM, "--policy", "gittins:history=absent.csv"), ("absent.csv", "no such file")),
    ((*SIM, "--policy", "gittins:history=history.csv"), ("history.csv:3", "duration", "long")),
    ((*SIM, "--policy", "./absent.py:Mine"), ("absent.py",)),
    ((*SIM, "--policy", "./broken.py:Mine"), ("broken.py", "SyntaxError")),
    ((*SIM, "--policy", "./raises.py"), ("raises.py", "RuntimeError")),
    ((*SIM, "--policy", "./nothing.py"), ("nothing.py", "0 classes")),
    ((*SIM, "--policy", "./two.py"), ("two.py", "2 classes")),
    ((*SIM, "--policy", "./two.py:C"), ("'C'", "A, B")),
    ((*SIM, "--policy", "fifo+pakced"), ("pakced", "Closest: packed")),
    ((*SIM, "--placer", "skewed"), ("skewed", "skew")),
    ((*SIM, "--spread-penalty", "1.2/x"), ("spread_penalty", "1.2/x")),
    ((*SIM, "--wait-for-locality", "--policy", "fifo:colocation=true"), ("wait_for_locality", "share GPUs")),
    ((*SIM, "--placer", "packed:sticky=2"), ("sticky", "'2'")),
    ((*SIM, "--preset", "idael"), ("idael", "Closest: ideal")),
    ((*SIM, "--preset", "bloks"), ("bloks", "blox")),
    # Flags
    ((*SIM, "--variability", "x.csv"), ("x.csv", "no such file")),
    ((*SIM, "--round-seconds", "0"), ("round_seconds",)),
    ((*SIM, "--round-seconds", "soon"), ("soon",)),
    ((*UP, "--round-seconds", "0"), ("round_seconds", "from 1")),
    ((*UP, "--round-seconds", "soon"), ("--round-seconds", "soon")),
    ((*UP, "--decide", "rounds"), ("rounds need a length",)),
    ((*UP, "--decide", "sometimes"), ("decide", "sometimes")),
    ((*UP, "--launch-seconds", "1e18"), ("launch_seconds",)),
    ((*UP, "--spread-penalty", "0.5"), ("spread_penalty", "0.5")),
    ((*UP, "--profile", "rates.csv"), ("rates.csv:2", "fast")),
    ((*UP, "--profile", "absent.csv"), ("absent.csv",)),
    ((*UP, "--tensors", "absent.csv"), ("absent.csv",)),
    ((*UP, "--variability", "absent.csv"), ("absent.csv",)),
    ((*UP, "--variability-medians"), ("variability_medians", "does nothing")),
    ((*UP, "--cordon-slower-than", "0.5"), ("cordon_slower_than",)),
    ((*UP, "--policy", "las+packed", "--placer", "spread"), ("named twice",)),
    ((*UP, "--placer", "nowhere"), ("nowhere",)),
    ((*UP, "--wait-for-locality", "--policy", "max-min-fairness:colocation=true"), ("wait_for_locality",)),
    ((*UP, "--unset", "profil"), ("--unset", "profil", "Closest: profile")),
    (("up", "--home", "home", "--pretend", "4xV10O"), ("V10O", "V100")),
    ((*SIM, "--decide", "never"), ("never", "events, rounds, both")),
    ((*SIM, "--decide", "rounds"), ("rounds", "length")),
    ((*SIM, "--spread-penalty", "0.5"), ("spread_penalty", "0.5")),
    ((*SIM, "--launch-seconds", "-1"), ("launch_seconds", "-1")),
    ((*SIM, "--node-mtbf-seconds", "0"), ("node_mtbf_seconds",)),
    ((*SIM, "--seed", "x"), ("--seed", "'x'")),
    ((*SIM, "--seed", "-1"), ("seed", "-1")),
    (("compare", "fifo", "--html", "."), ("--html", "folder")),
    (("compare", "fifo", "--html", "page.txt"), ("--html", "page.txt", "ends in .html")),
    (("compare", "fifo", "--seeds", "0"), ("seeds", "0")),
    (("compare", "fifo", "--seeds", "few"), ("--seeds", "few")),
    (("compare", "fifo", "--placer", "pakced"), ("pakced", "Closest: packed")),
    (("compare", "fifo", "--node-mtbf-seconds", "-1"), ("node_mtbf_seconds", "-1")),
    (("sweep",), ("POLICIES",)),
    (("sweep", "fifa", "--out", "o"), ("fifa", "Closest: fifo")),
    (("sweep", "fifo", "--out", "o", "--seeds", "0"), ("seeds", "0")),
    (("sweep", "fifo", "--out", "o", "--workers", "0"), ("--workers", "0")),
    (("sweep", "fifo", "--out", "o", "--cluster", "many"), ("cluster", "many")),
    (("sweep", "fifo", "--out", "o", "--vary", "load"), ("--vary", "load", "NAME=A/B/C")),
    (("sweep", "fifo", "--out", "o", "--vary", "round_seconds=a/b"), ("--vary", "a/b")),
    (("sweep", "fifo", "--out", "o", "--vary", "colour=1/2"), ("colour",)),
    (("sweep", "fifo", "--out", "o", "--vary", "first=1", "--vary", "first=2"), ("--vary", "twice")),
    (("sweep", "fifo", "--out", "o", "--trace", "good.csv", "--vary", "trace.load=1/2"), ("good.csv", "not a generated trace")),
    (("sweep", "fifo", "--out", "good.csv"), ("--out", "good.csv")),
    (("sweep", "fifo", "--out", "o", "--vary", "round_seconds=inf"), ("--vary", "inf")),
    (("sweep", "fifo", "--out", "o", "--vary", "first=1.5"), ("first", "1.5", "whole number")),
    (("sweep", "fifo", "--out", "o", "--first", "0"), ("first", "0")),
    (("sweep", "fifo", "--out", "o", "--trace", "dmeo"), ("dmeo", "Closest: demo")),
    (("sweep", "fifo", "--out", "o", "--preset", "idael"), ("idael", "Closest: ideal")),
    (("compare", "fifo+packed", "--placer", "spread"), ("placer", "names its own")),
    ((*SIM, "--window", "²:3"), ("--window", "²:3")),
    ((*SIM, "--checkpoint-seconds", "inf"), ("checkpoint_seconds", "must be from 0 to 1,000,000")),
    ((*SIM, "--policy", "my[/red].py:Mine"), ("my[/red].py", "no such file")),
    ((*SIM, "--cluster", "huge.yaml"), ("huge.yaml:1", "1e+15")),
    ((*SIM, "--cluster", "twice.yaml"), ("twice.yaml:2", "V100", "twice")),
    (("demo", "--html", "page.md"), ("--html", "page.md")),
    (("policy", "check", "tiresas"), ("tiresas", "Closest: tiresias")),
    ((*SIM, "-o", "yaml"), ("-o", "yaml")),
    ((*SIM, "--polcy", "fifo"), ("--polcy",)),
    (("sim",), ("--trace",)),
    (("simm",), ("simm",)),
    (("policy", "show", "fifa"), ("fifa", "Closest: fifo")),
    (("policy", "check", "fifo", "--seeds", "0"), ("seeds",)),
    (("compare",), ("POLICIES",)),
]


@pytest.mark.parametrize(("words", "expected"), CASES, ids=[" ".join(words) for words, _ in CASES])
def test_one_clear_line_and_a_next_step(
    folder: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    words: tuple[str, ...],
    expected: tuple[str, ...],
) -> None:
    code, out, err = rota(capsys, monkeypatch, *words)
    assert code == 2, err
    assert out == ""
    problem, try_line = err.rstrip("\n").split("\n")
    assert try_line.startswith("Try: ") and len(try_line) > len("Try: ")
    for part in expected:
        assert part in problem, err


def test_a_policy_that_answers_nonsense_is_a_failure_not_a_typo(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    code, _, err = rota(capsys, monkeypatch, *SIM, "--policy", "./wrong.py:Wrong")
    assert code == 1
    assert "Wrong.allocate answered with list" in err and "Try: return a rota.Ranking" in err
    code, _, err = rota(capsys, monkeypatch, *SIM, "--policy", "./raising.py:Raising")
    assert code == 1 and "Raising.allocate raised ZeroDivisionError" in err and "\nTry: " in err
