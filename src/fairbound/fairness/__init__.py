"""Cells, surrogates, measures and constraints: what is measured and limited.  Knows no optimisation."""

from fairbound.fairness.cells import Cells, Grouping
from fairbound.fairness.constraints import (
    CONSTRAINTS,
    AccuracyParity,
    Constraint,
    Covariance,
    DemographicParity,
    DisparateImpact,
    EqualImpact,
    EqualizedOdds,
    EqualOpportunity,
    NegativePredictiveParity,
    PredictiveEquality,
    PredictiveParity,
    Representation,
    Sufficiency,
    rate_limit,
)
from fairbound.fairness.decisions import Step, as_logits, decide, outcome_indicators, probabilities
from fairbound.fairness.measures import MEASURES, Measure
from fairbound.fairness.rates import RATES, GroupSums
from fairbound.fairness.surrogates import (
    SURROGATES,
    ExactStep,
    Linear,
    Max,
    PiecewiseAffineStep,
    Sigmoid,
    SmoothedStep,
    Surrogate,
    Tanh,
    resolve_surrogate,
)
from fairbound.fairness.system import ConstraintSystem
from fairbound.fairness.text import as_constraints, parse_constraint

__all__ = [
    "CONSTRAINTS",
    "MEASURES",
    "RATES",
    "SURROGATES",
    "AccuracyParity",
    "Cells",
    "Constraint",
    "ConstraintSystem",
    "Covariance",
    "DemographicParity",
    "DisparateImpact",
    "EqualImpact",
    "EqualOpportunity",
    "EqualizedOdds",
    "ExactStep",
    "GroupSums",
    "Grouping",
    "Linear",
    "Max",
    "Measure",
    "NegativePredictiveParity",
    "PiecewiseAffineStep",
    "PredictiveEquality",
    "PredictiveParity",
    "Representation",
    "Sigmoid",
    "SmoothedStep",
    "Step",
    "Sufficiency",
    "Surrogate",
    "Tanh",
    "as_constraints",
    "as_logits",
    "decide",
    "outcome_indicators",
    "parse_constraint",
    "probabilities",
    "rate_limit",
    "resolve_surrogate",
]
