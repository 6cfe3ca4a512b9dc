"""Measure decisions by group: the audit, the certificate, and confidence intervals.

The measures are those of `fairbound.fairness`, here with confidence intervals.
"""

from fairbound.evaluation.audit_result import Audit, Estimate, GroupAudit, MeasureAudit, Undefined
from fairbound.evaluation.auditing import audit, audit_tally, audited_measures, overall_accuracy
from fairbound.evaluation.certificate import Certificate, RateInterval, certify, certify_tally
from fairbound.evaluation.intervals import Share, WeightedShare, binomial_interval, weighted_interval
from fairbound.evaluation.matching import match_decisions, match_positive
from fairbound.evaluation.requirements import rate_name
from fairbound.evaluation.tally import Tally
from fairbound.evaluation.verdicts import Bounds, LimitCertificate, Verdict, sides_in_words

__all__ = [
    "Audit",
    "Bounds",
    "Certificate",
    "Estimate",
    "GroupAudit",
    "LimitCertificate",
    "MeasureAudit",
    "RateInterval",
    "Share",
    "Tally",
    "Undefined",
    "Verdict",
    "WeightedShare",
    "audit",
    "audit_tally",
    "audited_measures",
    "binomial_interval",
    "certify",
    "certify_tally",
    "match_decisions",
    "match_positive",
    "overall_accuracy",
    "rate_name",
    "sides_in_words",
    "weighted_interval",
]
