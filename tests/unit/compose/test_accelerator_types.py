"""Names of accelerator types: typing errors, and unknown types."""

from hypothesis import given
from hypothesis import strategies as st

from rota.compose.accelerator_types import one_slip_apart
from rota.model.accelerators import ACCELERATORS

names = st.sampled_from(sorted(ACCELERATORS))
letters = st.sampled_from("0123456789ABX")


@given(names, st.data())
def test_every_single_slip_is_found_from_both_sides(name: str, data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(name) - 1))
    letter = data.draw(letters)
    slips = {
        name[:at] + name[at + 1 :],
        name[:at] + letter + name[at:],
        name[:at] + letter + name[at + 1 :],
        name[:at] + name[at + 1 : at + 2] + name[at] + name[at + 2 :],
    }
    for slip in slips - {name}:
        assert one_slip_apart(slip, name) and one_slip_apart(name, slip), slip


def test_what_is_no_slip() -> None:
    for name, other in (
        ("A100", "A100"),
        ("TPU9", "T4"),
        ("MI250X", "MI300X"),
        ("G3", "L4"),
        ("A100-80GB", "A100"),
        ("GPU", "P100"),
    ):
        assert not one_slip_apart(name, other), (name, other)


def test_dashes_and_blanks_make_no_other_type() -> None:
    assert one_slip_apart("RTX-4090", "RTX4090") and one_slip_apart("rtx 4090", "RTX4090")
