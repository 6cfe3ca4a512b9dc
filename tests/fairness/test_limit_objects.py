"""Constraints with groups that cannot be values, or bounds that are not numbers, raise clear errors."""

from __future__ import annotations

import re

import numpy as np
import pytest

from fairbound import Constraint, DemographicParity


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"reference": ["a"]}, TypeError, "reference=['a'] cannot be a value of a column"),
        ({"classes": ([],)}, TypeError, "classes=([],) cannot be a value of a column"),
        ({"classes": np.array(1)}, TypeError, "classes="),
        ({"against": np.array(["overall", "pairwise"])}, ValueError, "against="),
        ({"margin": np.zeros(2)}, ValueError, "margin="),
    ],
)
def test_a_limit_that_names_no_values(options, error, words):
    with pytest.raises(error, match=re.escape(words)):
        DemographicParity(0.1, **options)


@pytest.mark.parametrize("bound", [10**400, -(10**400), np.array(0.3), [0.1, 0.2]])
def test_a_bound_that_no_number_holds(bound):
    with pytest.raises(ValueError, match="must be a number or a pair"):
        Constraint(bound, measure="demographic_parity")
