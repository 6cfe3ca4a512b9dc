"""Algorithm 1 of the paper: its enumeration as an oracle of the QP, and a case in which its printed order fails."""

from __future__ import annotations

import math

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.sqp.oracles import DenseQP, enumerated_step, printed_order_step

# The oracle takes candidates that are feasible to 1e-9, and the data are well scaled; nearly parallel rows cost digits.
ENUMERATED = 1e-6


def small_qp(seed: int, m: int, lower_bounds: bool) -> DenseQP:
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 6))
    width = rng.uniform(0.0, 1.0, size=m)
    return DenseQP(
        g=rng.normal(size=n),
        h=10.0 ** rng.uniform(-1, 1, size=n),
        c=rng.normal(size=m),
        J=rng.normal(size=(m, n)),
        lower=-width if lower_bounds else np.full(m, -math.inf),
        upper=width,
    )


@settings(max_examples=80, deadline=None)
@given(seed=st.integers(0, 10**6), m=st.integers(1, 5), lower_bounds=st.booleans())
def test_algorithm_1_enumeration_agrees_with_the_qp(seed, m, lower_bounds):
    qp = small_qp(seed, m, lower_bounds)
    solution = qp.solve()
    oracle = enumerated_step(qp)
    if oracle is None:  # five rows in two dimensions may be inconsistent
        assert solution.elastic
        return
    assert not solution.elastic
    np.testing.assert_allclose(solution.d, oracle, atol=ENUMERATED * max(1.0, np.abs(oracle).max()))


@settings(max_examples=80, deadline=None)
@given(seed=st.integers(0, 10**6))
def test_algorithm_1_printed_order_is_right_for_two_upper_bounds(seed):
    qp = small_qp(seed, 2, lower_bounds=False)
    np.testing.assert_allclose(printed_order_step(qp), qp.solve().d, atol=ENUMERATED * 10)


def test_algorithm_1_printed_order_can_be_beaten_with_two_sided_rows():
    """The unconstrained step (1, 0) breaks row 1 above and row 2 below.

    Holding row 2 alone, at its *upper* side, gives (0, −1), which happens to be feasible; so the printed order stops at
    one active side, the wrong one.  The optimum holds row 1 above and row 2 below.
    """
    qp = DenseQP(
        g=np.array([-1.0, 0.0]),
        h=np.ones(2),
        c=np.zeros(2),
        J=np.array([[2.0, -1.0], [-1.0, -1.0]]),
        lower=np.zeros(2),
        upper=np.ones(2),
    )
    np.testing.assert_allclose(printed_order_step(qp), [0.0, -1.0], atol=1e-12)
    np.testing.assert_allclose(qp.solve().d, [1 / 3, -1 / 3], atol=1e-12)
    np.testing.assert_allclose(enumerated_step(qp), [1 / 3, -1 / 3], atol=1e-12)
    assert qp.objective(qp.solve().d) < qp.objective(printed_order_step(qp)) - 0.7
