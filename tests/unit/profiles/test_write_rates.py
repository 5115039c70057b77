"""Rates that are added to a table: new ones replace old ones, the rest stays, and the table reads back."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.errors import ProfileError
from rota.profiles.rates_csv import read_rates
from rota.profiles.write_rates import MeasuredRate, check_table, write_rates
from tests.examples import examples

BEFORE = """steps_per_second,profile,accelerator,gpus,nodes,beside
5.1,net,v100,,,
4.1,net,V100,4,2,
3.9,net,V100,1,1,lm
40.2,lm,V100,1,1,net
"""


def test_what_is_measured_again_replaces_and_the_rest_stays(tmp_path: Path) -> None:
    path = tmp_path / "rates.csv"
    path.write_text(BEFORE)
    check_table(path)
    write_rates(path, [MeasuredRate("net", "V100", 1, 6.25), MeasuredRate("net", "V100", 4, 9.0)])
    found = read_rates(path)
    assert found.table == {("net", "V100", 1): 6.25, ("net", "V100", 4): 9.0}
    assert found.across_nodes == {("net", "V100", 4): 4.1} and found.pairs[("net", "lm", "V100", 1)] == (3.9, 40.2)
    assert list(tmp_path.iterdir()) == [path], "no half-written file is left"


@examples(25)
@given(
    st.dictionaries(
        st.tuples(st.sampled_from(["a/global64", 'odd, "name"', "b"]), st.sampled_from(["V100", "K80"]), st.integers(1, 16)),
        st.floats(1e-3, 1e5),
        min_size=1,
        max_size=8,
    )
)
def test_what_is_written_one_by_one_is_read(
    tmp_path_factory: pytest.TempPathFactory, rates: dict[tuple[str, str, int], float]
) -> None:
    path = tmp_path_factory.mktemp("rates") / "rates.csv"
    for key, rate in rates.items():
        write_rates(path, [MeasuredRate(*key, rate)])
    assert read_rates(path).table == pytest.approx(rates, rel=1e-5)


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("rates.txt", None, "must end in .csv"),
        ("absent/rates.csv", None, "cannot be written"),
        ("notes.csv", "my,notes\n1,2\n", "rates"),
    ],
)
def test_a_file_that_is_no_table_is_refused_before_anything_runs(
    tmp_path: Path, name: str, text: str | None, expected: str
) -> None:
    path = tmp_path / name
    if text is not None:
        path.write_text(text)
    with pytest.raises(ProfileError, match=expected):
        check_table(path)
