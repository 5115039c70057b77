"""Bars: as long as their values, named, and text stays text."""

import re

from rota.papers.bars import Bar, bars


def test_bars_are_as_long_as_their_values() -> None:
    groups = [("first", [Bar(label="a", value=50, note="50%"), Bar(label="b", value=100, low=80, high=200, note="<b>")])]
    svg = bars("Title", "below", groups, mark=(100.0, "here")).svg
    one, two = (float(width) for width in re.findall(r'<rect [^>]*width="([\d.]+)"', svg))
    assert two == 2 * one
    assert "<b>" not in svg and "&lt;b&gt;" in svg and "first" in svg and "here" in svg
    assert svg.count("<path") == 1, "only what varies has a line for it"


def test_less_than_nothing_is_nothing() -> None:
    svg = bars("Title", "below", [("", [Bar(label="a", value=-5, note="-5")])]).svg
    assert 'width="0.0"' in svg
    assert "<svg" in bars("Title", "of nothing", []).svg
