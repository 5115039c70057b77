"""Tensors of modules: what counts, what is built and where, the errors if it cannot be; and the file that keeps them."""

import sys
from pathlib import Path
from typing import Any

import pytest

from rota.errors import InputError, OptionError, ProfileError
from rota.profiles.catalogue import Catalogue
from rota.profiles.tensors import Tensors, module_tensors, read_tensors, save_tensors

PLAIN = '''
"""Objects that look like modules, without PyTorch."""
from helper import Parameter

class Net:
    def __init__(self, width=4, *, frozen=False, scale: float = 1.0):
        self.parameters = {
            "embedding": Parameter(10, width, trained=not frozen),
            "dense.weight": Parameter(width, 2),
            "dense.bias": Parameter(2),
        }

    def named_parameters(self):
        yield from self.parameters.items()

class Outer:
    Inner = Net

class Empty:
    def named_parameters(self):
        return []

class Frozen:
    def named_parameters(self):
        return [("a", Parameter(3, trained=False))]

class Odd:
    def named_parameters(self):
        return 1

class Shapeless:
    def named_parameters(self):
        return [("a", object())]

class Needs:
    def __init__(self, width, depth): ...

def anything(**rest):
    return Net(**rest)

def places(a, /): ...

def tells():
    raise RuntimeError("of no\\nuse.")

def silent():
    raise RuntimeError

def leaves():
    raise SystemExit(1)

def lacks():
    import nowhere_at_all

def number():
    return 3

WIDTH = 64
ready = Net(8)
'''
HELPER = """
class Parameter:
    def __init__(self, *shape, trained=True):
        self.shape, self.requires_grad = shape, trained
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Models in a file and in a package; PyTorch cannot be imported."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, "torch", None)
    before = set(sys.modules)
    Path("helper.py").write_text(HELPER)
    Path("plain.py").write_text(PLAIN)
    Path("wants_torch.py").write_text("import torch\n")
    Path("wants_more.py").write_text("import nowhere_at_all.deep\n")
    Path("broken.py").write_text("def oops(:\n")
    Path("script.py").write_text("import sys\nsys.exit(3)\n")
    Path("shop").mkdir()
    Path("shop/__init__.py").write_text("")
    Path("shop/models.py").write_text("from plain import Net\n")
    yield tmp_path
    for name in set(sys.modules) - before:
        if name.partition(".")[0] in ("helper", "plain", "shop") or name.startswith("rota_model_"):
            del sys.modules[name]


@pytest.mark.usefixtures("folder")
def test_what_is_trained_counts() -> None:
    path = list(sys.path)
    assert module_tensors("plain.py:Net") == Tensors("Net", 3, 50, "embedding", 40)
    assert module_tensors("plain.py:Net").skew == 0.8
    assert module_tensors("plain.py:Net", {"frozen": True}, "mine") == Tensors("mine", 2, 10, "dense.weight", 8)
    assert module_tensors("plain.py:Net", {"width": 100}).largest == 1000
    assert sys.path == path


def test_where_it_may_be(folder: Path) -> None:
    assert module_tensors("plain:Net") == module_tensors(f"{folder}/plain.py:Net") == module_tensors("shop.models:Net")
    assert module_tensors("plain.py:Outer.Inner").profile == "Outer.Inner"
    assert module_tensors("plain.py:anything", {"width": 8}).parameters == module_tensors("plain.py:ready").parameters


@pytest.mark.usefixtures("folder")
def test_a_file_that_changed_is_read_again() -> None:
    Path("late.py").write_text("from plain import Net\ndef net(): return Net(4)\n")
    assert module_tensors("late.py:net").largest == 40
    Path("late.py").write_text("from plain import Net\ndef net(): return Net(40)\n")
    assert module_tensors("late.py:net").largest == 400


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    ("where", "arguments", "problem", "hint"),
    [
        ("plain.py", {}, "does not name what to build", "plain.py:Net"),
        ("plain", {}, "does not name what to build", "package.module:Net"),
        (":Net", {}, "does not name what to build", "package.module:Net"),
        ("absent.py:Net", {}, "no such file", "check the path"),
        ("absent:Net", {}, "there is no module absent", "pip install absent"),
        ("shop.absent:Net", {}, "there is no module shop.absent", "path/to/net.py:Net"),
        ("wants_torch.py:Net", {}, "needs PyTorch", 'pip install "rota-scheduler[torch]"'),
        ("wants_torch:Net", {}, "needs PyTorch", 'pip install "rota-scheduler[torch]"'),
        ("torch:nn.Linear", {}, "needs PyTorch", 'pip install "rota-scheduler[torch]"'),
        ("wants_more.py:Net", {}, "imports nowhere_at_all", "pip install nowhere_at_all"),
        ("plain.py:lacks", {}, "imports nowhere_at_all", "pip install nowhere_at_all"),
        ("broken.py:Net", {}, "raised SyntaxError", "python broken.py"),
        ("broken:Net", {}, "raised SyntaxError", "python -c 'import broken'"),
        ("script.py:Net", {}, "ends Python", "__main__"),
        ("plain.py:leaves", {}, "ends Python", "__main__"),
        ("plain.py:Nett", {}, "has no Nett. Closest: Net.", "package.module:Net"),
        ("plain.py:Outer.Other", {}, "has no Other", "package.module:Net"),
        ("plain.py:WIDTH", {}, "is of type int", "torch.nn.Module"),
        ("plain.py:number", {}, "gave an object of type int", "torch.nn.Module"),
        ("plain.py:Needs", {}, "needs width, depth", "--arg width=64"),
        ("plain.py:Needs", {"width": 1}, "needs depth", "--arg depth=64"),
        ("plain.py:Net", {"widht": 1}, "does not take widht. Closest: width.", "rename it"),
        ("plain.py:number", {"width": 1}, "does not take width. All: none.", "leave that --arg out"),
        ("plain.py:ready", {"width": 1}, "is already built and does not take width", "name the class"),
        ("plain.py:places", {}, "missing", "takes no arguments"),
        ("plain.py:tells", {}, "raised RuntimeError: of no use.", "--arg width=64"),
        ("plain.py:silent", {}, "raised RuntimeError.", "--arg width=64"),
        ("plain.py:Empty", {}, "has no parameters", "holds the layers"),
        ("plain.py:Frozen", {}, "trains nothing", "as you train it"),
        ("plain.py:Odd", {}, "raised TypeError", "pairs of a name and a tensor"),
        ("plain.py:Shapeless", {}, "the size of a is not known", "widths"),
    ],
)
def test_what_cannot_be_built(where: str, arguments: dict[str, Any], problem: str, hint: str) -> None:
    with pytest.raises(OptionError) as raised:
        module_tensors(where, arguments)
    assert problem in raised.value.message and "\n" not in raised.value.message
    assert hint in raised.value.hint
    assert raised.value.field == "WHERE" and raised.value.value == where


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("name", [" ", "a\nb", "a\0"])
def test_names_of_profiles(name: str) -> None:
    with pytest.raises(OptionError, match="--profile"):
        module_tensors("plain.py:Net", profile=name)


# Files


NET, BIG = Tensors("net", 3, 50, "embedding", 40), Tensors("big, wide", 38, 143_667_240, "classifier.0.weight", 102_760_448)
HEADER = "profile,parameters,largest_name,largest,skew\n"


def test_a_file_keeps_what_it_has(tmp_path: Path) -> None:
    path = tmp_path / "skews.csv"
    save_tensors(path, [NET])
    assert path.read_text() == HEADER + "net,50,embedding,40,0.8\n"
    save_tensors(path, [BIG])
    assert path.read_text().splitlines()[1:] == [
        "net,50,embedding,40,0.8",
        '"big, wide",143667240,classifier.0.weight,102760448,0.715267',
    ]
    save_tensors(path, [Tensors("net", 2, 10, "a", 5), Tensors("new", 1, 7, "b", 7)])
    assert read_tensors(path) == {"net": 0.5, "big, wide": 0.715267, "new": 1.0}
    assert [line.split(",")[0] for line in path.read_text().splitlines()] == ["profile", "net", '"big', "new"]
    assert [each.name for each in tmp_path.iterdir()] == ["skews.csv"], "nothing is left beside it"


def test_a_tiny_skew_stays_more_than_nothing(tmp_path: Path) -> None:
    path = tmp_path / "skews.csv"
    save_tensors(path, [Tensors("huge", 10**6, 10**12, "a", 3)])
    assert read_tensors(path) == {"huge": 3e-12}


def test_an_empty_file_and_a_link(tmp_path: Path) -> None:
    real, link = tmp_path / "real.csv", tmp_path / "link.csv"
    real.touch()
    link.symlink_to(real)
    save_tensors(link, [NET])
    assert link.is_symlink() and read_tensors(real) == {"net": 0.8}


def test_a_file_that_is_something_else_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "rates.csv"
    path.write_text("profile,accelerator,steps_per_second\na,V100,1\n")
    with pytest.raises(ProfileError, match="accelerator"):
        save_tensors(path, [NET])
    assert path.read_text().startswith("profile,accelerator")


@pytest.mark.parametrize("place", [".", "absent/skews.csv", "file/skews.csv"])
def test_where_nothing_can_be_written(place: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(ProfileError) as raised:
        save_tensors(tmp_path / place, [NET])
    assert raised.value.hint
    assert [each.name for each in tmp_path.iterdir()] == ["file"]


def test_a_write_that_fails_leaves_the_file_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "skews.csv"
    save_tensors(path, [NET])

    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(ProfileError, match="No space left"):
        save_tensors(path, [BIG])
    assert read_tensors(path) == {"net": 0.8} and len(list(tmp_path.iterdir())) == 1


@pytest.mark.parametrize(
    ("text", "line", "field", "problem"),
    [
        ("", None, "", "empty"),
        (HEADER, None, "", "no profiles below it"),
        ("profile,parameters,largest\n", 1, "skew", "needs this column"),
        ("profile,parameters,largest,skew,speed\n", 1, "column", "no such column"),
        (HEADER + ",50,a,40,0.8\n", 2, "profile", "is empty"),
        (HEADER + "net,50,a,40,0.8\nnet,50,a,40,0.8\n", 3, "profile", "already given on line 2"),
        (HEADER + "net,,a,40,0.8\n", 2, "parameters", "is empty"),
        (HEADER + "net,50.5,a,40,0.8\n", 2, "parameters", "whole number"),
        (HEADER + "net,50,a,0,0\n", 2, "largest", "whole number from 1"),
        (HEADER + "net,50,a,60,1.2\n", 2, "largest", "more than all"),
        (HEADER + "net,50,a,40,high\n", 2, "skew", "not a finite number"),
        (HEADER + "net,50,a,40,0.2\n", 2, "skew", "not largest / parameters, 0.8"),
        (HEADER + "net,50,40,0.8\n", 2, "cells", "5 columns"),
    ],
)
def test_what_is_wrong_with_a_file(text: str, line: int | None, field: str, problem: str, tmp_path: Path) -> None:
    path = tmp_path / "skews.csv"
    path.write_text(text)
    with pytest.raises(InputError) as raised:
        read_tensors(path)
    assert (raised.value.line, raised.value.field) == (line, field)
    assert problem in raised.value.message and raised.value.hint


def test_the_name_of_the_largest_may_be_left_out(tmp_path: Path) -> None:
    path = tmp_path / "skews.csv"
    path.write_text("skew,profile,parameters,largest\n0.8,net,50,40\n")
    assert read_tensors(path) == {"net": 0.8}


# With PyTorch


TORCH = '''
import torch
from torch import nn

class Tied(nn.Module):
    """An embedding whose weights are those of the output too, and a part that is frozen."""

    def __init__(self, words=100, width=8, tie=True):
        super().__init__()
        self.embedding = nn.Embedding(words, width)
        self.body = nn.Linear(width, width)
        self.head = nn.Linear(width, words, bias=False)
        if tie:
            self.head.weight = self.embedding.weight
        self.frozen = nn.Linear(10_000, 10_000).requires_grad_(False)
        self.register_buffer("mask", torch.zeros(10_000, 10_000))

class Looks(nn.Module):
    """Looks at the values of its weights while it is built."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 3)
        self.positive = self.layer.weight.sum().item() > 0

class Lazy(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.LazyLinear(3)

def vgg19():
    layers, channels = [], 3
    for width in (64, 64, 128, 128, *[256] * 4, *[512] * 8):
        layers.append(nn.Conv2d(channels, width, 3, padding=1))
        channels = width
    dense = [nn.Linear(25088, 4096), nn.Linear(4096, 4096), nn.Linear(4096, 1000)]
    return nn.ModuleDict({"features": nn.Sequential(*layers), "classifier": nn.Sequential(*dense)})

def where():
    module = nn.Linear(2, 2)
    devices.append(module.weight.device.type)
    return module

devices = []
'''


@pytest.fixture
def modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    torch = pytest.importorskip("torch", reason="torch is not installed: make install-torch")
    monkeypatch.chdir(tmp_path)
    Path("nets.py").write_text(TORCH)
    yield torch
    sys.modules.pop("rota_model_nets", None)


@pytest.mark.usefixtures("modules")
@pytest.mark.slow
def test_tied_weights_count_once_and_frozen_ones_not_at_all() -> None:
    assert module_tensors("nets.py:Tied") == Tensors("Tied", 3, 872, "embedding.weight", 800)
    assert module_tensors("nets.py:Tied", {"tie": False}).parameters == 1672
    assert module_tensors("nets.py:Tied", {"words": 10}).largest == 80


@pytest.mark.slow
@pytest.mark.usefixtures("modules")
def test_the_real_vgg19() -> None:
    found = module_tensors("nets.py:vgg19")
    assert found == Tensors("vgg19", 38, 143_667_240, "classifier.0.weight", 102_760_448)
    assert found.skew == pytest.approx(0.715, abs=0.001)
    assert Catalogue().skew("vgg19") == pytest.approx(found.skew, rel=0.001)


@pytest.mark.usefixtures("modules")
def test_on_the_meta_device_where_that_works() -> None:
    module_tensors("nets.py:where")
    assert sys.modules["rota_model_nets"].devices == ["meta"]
    assert module_tensors("nets.py:Looks") == Tensors("Looks", 2, 15, "layer.weight", 12)


@pytest.mark.usefixtures("modules")
def test_a_lazy_layer_has_no_size_yet() -> None:
    with pytest.raises(OptionError, match=r"layer\.weight is not known before its first input"):
        module_tensors("nets.py:Lazy")


def test_the_device_is_the_usual_one_again(modules: Any) -> None:
    with pytest.raises(OptionError):
        module_tensors("nets.py:Lazy")
    module_tensors("torch.nn:Linear", {"in_features": 2, "out_features": 3})
    assert modules.empty(1).device.type == "cpu"
