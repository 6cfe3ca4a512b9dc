"""How numbers are written: short, and never on the wrong side of a bound."""

from __future__ import annotations

import hypothesis.strategies as st
import pytest
from hypothesis import given

from fairbound.evaluation import Estimate
from fairbound.report import numbers

share = st.floats(0.0, 1.0)


def read(text: str) -> float:
    return float(text.replace(numbers.MINUS, "-"))


@given(value=share, bound=st.sampled_from([0.8, 0.9, 0.05, 1 / 3]))
def test_a_value_stays_on_its_side_of_the_bound(value, bound):
    shown = read(numbers.beside(value, [bound]))
    assert shown == pytest.approx(value, abs=5.1e-5)
    if abs(value - bound) > 1e-11:  # nearer, it is rounding
        assert (shown < bound, shown > bound) == (value < bound, value > bound)


@given(value=st.floats(-1.0, 1.0))
def test_the_sign_of_nothing_is_not_shown(value):
    text = numbers.points(value)
    assert text[0] == ("+" if value > 0 else numbers.MINUS) or text == "0.00 points"


@pytest.mark.parametrize("name", ["rate", "percent", "points", "signed", "significant"])
def test_what_is_not_known_is_a_dash(name):
    assert getattr(numbers, name)(None) == "–"


def test_an_undefined_value_says_so():
    assert numbers.beside(None, [0.8]) == "undefined"
    assert numbers.estimate(Estimate()) == "undefined"
