"""YAML entries: what is read, and the error for every mistake."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.errors import ClusterError, InputError
from rota.files.tree import TreeEntry, duration_seconds, read_tree


def tree(folder: Path, text: str) -> TreeEntry:
    path = folder / "file.yaml"
    path.write_text(text)
    return read_tree(path, ClusterError)


def test_values_and_their_places(tmp_path: Path) -> None:
    root = tree(tmp_path, "a: 1\nb:\n  - x\n  - {c: 2h, d: 512 GiB}\n")
    assert root.plain() == {"a": 1, "b": ["x", {"c": "2h", "d": "512 GiB"}]}
    inner = root.mapping()["b"].items()[1].mapping()
    assert (inner["c"].line, inner["c"].name, inner["c"].seconds()) == (4, "b[2].c", 7200.0)
    assert inner["d"].gib() == 512.0
    found, way = root.find(("b", 1, "c", "not there"))
    assert (found.value, way) == ("2h", ("b", 1, "c"))


@pytest.mark.parametrize(
    "text,line,words",
    [
        ("a: [1, 2", 1, "not YAML"),
        ("a: 1\n\tb: 2", 2, "not YAML"),
        ("a: &x 1\nb: *x", 1, "anchors and aliases"),
        ("a: 1\nb: *x", 2, "anchors and aliases"),
        ("a: 1\nb: !!python/object:os.system 2", 2, "tags are not read"),
        ("a: 1\nb: 2\na: 3", 3, "already given on line 1"),
        ("? [a, b]\n: 1", 1, "one word"),
        ("a: 1\n---\nb: 2", 2, "not YAML"),
        ("a: 2020-13-45", 1, "cannot be read"),
    ],
)
def test_what_is_not_plain_yaml(tmp_path: Path, text: str, line: int, words: str) -> None:
    with pytest.raises(ClusterError, match=words) as caught:
        tree(tmp_path, text)
    assert caught.value.line == line
    assert "file.yaml" in caught.value.message and "\n" not in caught.value.message and caught.value.hint


@pytest.mark.parametrize("text", ["", "# nothing\n", "---\n"])
def test_empty(tmp_path: Path, text: str) -> None:
    with pytest.raises(ClusterError, match=r"empty|not a mapping"):
        tree(tmp_path, text).mapping()


def test_nesting_has_an_end(tmp_path: Path) -> None:
    for depth in (30, 5000):
        with pytest.raises(ClusterError, match="nested too deeply"):
            tree(tmp_path, "[" * depth + "]" * depth)


@pytest.mark.parametrize("text,seconds", [("90s", 90), ("15m", 900), ("1.5h", 5400), ("30d", 2_592_000), ("1 w", 604_800)])
def test_lengths_of_time(text: str, seconds: float) -> None:
    assert duration_seconds(text) == seconds


@pytest.mark.parametrize("text", ["", "soon", "-1h", "1y", "0s", "1h30", "1e9s", "٣h"])
def test_what_is_no_length_of_time(text: str) -> None:
    assert duration_seconds(text) is None


@pytest.mark.parametrize(
    "value,act",
    [
        ("yes", lambda entry: entry.number()),
        (".inf", lambda entry: entry.number()),
        ("-1", lambda entry: entry.number()),
        ("0", lambda entry: entry.number(above=True)),
        ("1.5", lambda entry: entry.whole(least=1, most=9)),
        ("10", lambda entry: entry.whole(least=1, most=9)),
        ("[1]", lambda entry: entry.text()),
        ("''", lambda entry: entry.text()),
        ("{b: 1}", lambda entry: entry.items()),
        ("1", lambda entry: entry.mapping()),
        ("{b: 1}", lambda entry: entry.fields(("c",))),
        ("{c: }", lambda entry: entry.fields(("c",), required=("c",))),
        ("soon", lambda entry: entry.seconds()),
        ("much", lambda entry: entry.gib()),
    ],
)
def test_values_of_the_wrong_kind(tmp_path: Path, value: str, act: object) -> None:
    entry = tree(tmp_path, f"a: {value}").mapping()["a"]
    with pytest.raises(ClusterError) as caught:
        act(entry)  # type: ignore[operator]
    assert caught.value.line == 1 and caught.value.field.startswith("a") and caught.value.hint


@given(st.text(max_size=200))
def test_any_text_is_read_or_refused(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    path = tmp_path_factory.getbasetemp() / "any.yaml"
    path.write_text(text, encoding="utf-8", errors="ignore")
    try:
        read_tree(path, ClusterError).plain()
    except InputError as problem:
        assert "\n" not in problem.message
