"""Measure decisions by group: the audit, the certificate, and confidence intervals.

The measures are those of `fairbound.fairness`, here with confidence intervals.
"""

from fairbound.evaluation.audit_records import Estimate, GroupAudit, MeasureAudit
from fairbound.evaluation.audit_result import Audit
from fairbound.evaluation.auditing import audit, audit_tally, audited_measures, overall_accuracy
from fairbound.evaluation.certificate import Certificate, certify, certify_tally
from fairbound.evaluation.e_processes import MEMORIES, EProcesses
from fairbound.evaluation.forecast import (
    AUTO,
    Forecast,
    LimitForecast,
    MarginResult,
    RateDistribution,
    room_within,
    with_reserve,
)
from fairbound.evaluation.intervals import MonotoneRate, Share, WeightedShare, binomial_interval
from fairbound.evaluation.ll144 import Category, CategoryTable, LL144Tables
from fairbound.evaluation.matching import match_decisions, match_positive
from fairbound.evaluation.monitor_records import (
    CountedBatch,
    LimitEvidence,
    MonitorAlarm,
    RequirementEvidence,
)
from fairbound.evaluation.monitoring import Monitor
from fairbound.evaluation.p_values import PairedTest, beside_the_highest, holm, paired_test
from fairbound.evaluation.regression_audit import RegressionAudit, audit_regression
from fairbound.evaluation.requirements import LimitSide, RateKey, Requirement, rate_name
from fairbound.evaluation.score_records import CalibrationBin, GroupScores, ScoreAudit, ThresholdCurves
from fairbound.evaluation.scores import Scores, auc_estimate, check_scores, tally_decisions
from fairbound.evaluation.significance import (
    SelectionTest,
    Significance,
    compare_selections,
)
from fairbound.evaluation.tally import WHOLES, Tally
from fairbound.evaluation.verdicts import LimitCertificate, Verdict, refusal, sides_in_words, times_as_many

__all__ = [
    "AUTO",
    "MEMORIES",
    "WHOLES",
    "Audit",
    "CalibrationBin",
    "Category",
    "CategoryTable",
    "Certificate",
    "CountedBatch",
    "EProcesses",
    "Estimate",
    "Forecast",
    "GroupAudit",
    "GroupScores",
    "LL144Tables",
    "LimitCertificate",
    "LimitEvidence",
    "LimitForecast",
    "LimitSide",
    "MarginResult",
    "MeasureAudit",
    "Monitor",
    "MonitorAlarm",
    "MonotoneRate",
    "PairedTest",
    "RateDistribution",
    "RateKey",
    "RegressionAudit",
    "Requirement",
    "RequirementEvidence",
    "ScoreAudit",
    "Scores",
    "SelectionTest",
    "Share",
    "Significance",
    "Tally",
    "ThresholdCurves",
    "Verdict",
    "WeightedShare",
    "auc_estimate",
    "audit",
    "audit_regression",
    "audit_tally",
    "audited_measures",
    "beside_the_highest",
    "binomial_interval",
    "certify",
    "certify_tally",
    "check_scores",
    "compare_selections",
    "holm",
    "match_decisions",
    "match_positive",
    "overall_accuracy",
    "paired_test",
    "rate_name",
    "refusal",
    "room_within",
    "sides_in_words",
    "tally_decisions",
    "times_as_many",
    "with_reserve",
]
