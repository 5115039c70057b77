"""`rota profile tensors` as a user runs it."""

import csv
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from rota.cli.profile_tensors import _value
from rota.profiles.tensors import read_tensors
from tests.unit.cli.test_bad_input import rota

ROOT = Path(__file__).resolve().parents[3]
NET = """
print("building")

class Parameter:
    def __init__(self, *shape):
        self.shape = shape

class Net:
    def __init__(self, width=4, rows=10, name=None):
        assert isinstance(width, int) and (name is None or isinstance(name, str))
        self.parameters = {"table": Parameter(rows, width), "out": Parameter(width, 2)}

    def named_parameters(self):
        return self.parameters.items()

def needs(width):
    return Net(width)
"""
VGG = """
from torch import nn

def vgg19():
    layers, channels = [], 3
    for width in (64, 64, 128, 128, *[256] * 4, *[512] * 8):
        layers += [nn.Conv2d(channels, width, 3, padding=1), nn.ReLU()]
        channels = width
    dense = [nn.Linear(25088, 4096), nn.ReLU(), nn.Dropout(), nn.Linear(4096, 4096), nn.ReLU(), nn.Linear(4096, 1000)]
    return nn.ModuleDict({"features": nn.Sequential(*layers), "classifier": nn.Sequential(*dense)})
"""


@pytest.fixture(autouse=True)
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("net.py").write_text(NET)


@pytest.fixture
def no_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)


@pytest.mark.usefixtures("no_torch")
def test_what_it_says(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    code, out, err = rota(capsys, monkeypatch, "profile", "tensors", "net.py:Net")
    assert code == 0 and err == "building\n", "what the model prints is no part of the answer"
    assert out.splitlines() == [
        "Net: 48 parameters in 2 tensors",
        "largest   table: 40, 83.3% of all",
        "Skew 0.83: consolidated by the `skew` placer (limit 0.4).",
    ]
    words = ("profile", "tensors", "net.py:Net", "--arg", "rows=2", "--arg", "name=two words", "--profile", "even")
    code, out, _ = rota(capsys, monkeypatch, *words)
    assert code == 0 and out.startswith("even: 16 parameters") and "Skew 0.50: consolidated" in out
    code, out, _ = rota(capsys, monkeypatch, "profile", "tensors", "net.py:Net", "-o", "json")
    assert json.loads(out) == {
        "profile": "Net",
        "tensors": 2,
        "parameters": 48,
        "largest_name": "table",
        "largest": 40,
        "skew": 40 / 48,
    }
    code, out, _ = rota(capsys, monkeypatch, "profile", "tensors", "net.py:Net", "-o", "csv")
    (row,) = csv.DictReader(out.splitlines())
    assert row["profile"] == "Net" and float(row["skew"]) == 40 / 48


@pytest.mark.usefixtures("no_torch")
def test_what_may_be_spread(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    Path("even.py").write_text(NET + "\nclass Even(Net):\n    def named_parameters(self):\n")
    with Path("even.py").open("a") as file:
        file.write("        return [(str(n), Parameter(5, 4)) for n in range(10)]\n")
    code, out, _ = rota(capsys, monkeypatch, "profile", "tensors", "even.py:Even")
    assert code == 0 and "Skew 0.10: may be spread by the `skew` placer (limit 0.4)." in out


@pytest.mark.usefixtures("no_torch")
def test_save(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    words = ("profile", "tensors", "net.py:Net", "--save", "skews.csv")
    code, out, _ = rota(capsys, monkeypatch, *words)
    assert code == 0 and out.splitlines()[-1] == "Saved in skews.csv."
    assert rota(capsys, monkeypatch, *words, "--profile", "wide", "--arg", "rows=98", "-o", "json")[0] == 0
    assert rota(capsys, monkeypatch, *words, "--arg", "rows=2")[0] == 0
    assert read_tensors("skews.csv") == {"Net": 0.5, "wide": 0.98}


@pytest.mark.usefixtures("no_torch")
@pytest.mark.parametrize(
    ("words", "seen"),
    [
        (("net.py",), ("net.py", "Try: net.py:Net")),
        (("nowhere.py:Net",), ("nowhere.py:Net", "no such file")),
        (("nowhere_at_all:Net",), ("no module nowhere_at_all", "pip install nowhere_at_all")),
        (("torch:nn.Linear",), ("PyTorch", 'Try: pip install "rota-scheduler[torch]"')),
        (("net.py:needs",), ("needs width", "Try: --arg width=64")),
        (("net.py:Net", "--arg", "width"), ("--arg", "KEY=VALUE")),
        (("net.py:Net", "--arg", "=3"), ("--arg", "KEY=VALUE")),
        (("net.py:Net", "--arg", "rows=1", "--arg", "rows=2"), ("--arg", "rows is given twice")),
        (("net.py:Net", "--arg", "size=3"), ("does not take size", "width, rows, name")),
        (("net.py:Net", "--arg", "width=[1]"), ("raised AssertionError",)),
        (("net.py:Net", "--profile", "a\nb"), ("--profile",)),
        (("net.py:Net", "--save", "net.py"), ("net.py:2", "no such column")),
        (("net.py:Net", "--save", "nowhere/x.csv"), ("nowhere/x.csv", "cannot be written")),
        (("net.py:Net", "-o", "xml"), ("-o", "xml")),
    ],
)
def test_what_is_mistyped(
    words: tuple[str, ...], seen: tuple[str, ...], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    code, out, err = rota(capsys, monkeypatch, "profile", "tensors", *words)
    assert code == 2 and not out
    assert all(part in err for part in seen), err
    told = [line for line in err.splitlines() if line != "building"]
    assert told[-1].startswith("Try: ") and len(told) == 2


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("64", 64),
        ("0.5", 0.5),
        ("true", True),
        ("null", None),
        ('"64"', "64"),
        ("relu", "relu"),
        ("", ""),
        ("[1, 2]", "[1, 2]"),
        ("{}", "{}"),
        ("__import__('os')", "__import__('os')"),
    ],
)
def test_values(text: str, value: object) -> None:
    assert _value(text) == value and type(_value(text)) is type(value)


def test_nothing_of_the_users_runs_before_it_is_asked_for() -> None:
    """Neither PyTorch nor the code that loads modules comes with the other commands."""
    script = "import sys, rota.cli.profile; print([name for name in sys.modules if name.startswith(('torch', 'rota.profiles'))])"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_the_example_of_the_page(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """With torchvision's VGG-19 written down here: same layers, same names."""
    pytest.importorskip("torch", reason="torch is not installed: make install-torch")
    text = (ROOT / "docs/profiles.md").read_text()
    (command, shown) = re.search(r"```sh\nrota (profile tensors [^\n]*)\n```\n\n```text\n(.*?)```", text, re.DOTALL).groups()
    Path("torchvision").mkdir()
    Path("torchvision/__init__.py").touch()
    Path("torchvision/models.py").write_text(VGG)
    for name in ("torchvision", "torchvision.models"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    code, out, err = rota(capsys, monkeypatch, *command.split())
    for name in ("torchvision", "torchvision.models"):
        sys.modules.pop(name, None)
    assert code == 0 and not err and out == shown
    assert Path("skews.csv").read_text() in re.findall(r"```text\n(.*?)```", text, re.DOTALL)
