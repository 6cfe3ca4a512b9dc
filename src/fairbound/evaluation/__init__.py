"""What decisions do, measured by group: the audit, intervals, and the certificate.

The measures are those of `fairbound.fairness`; this room adds how well the rows know them.
"""

from fairbound.evaluation.audit import audit
from fairbound.evaluation.audited import Audit, Estimate, GroupAudit, MeasureAudit, Undefined
from fairbound.evaluation.certificate import Certificate, RateInterval, certify
from fairbound.evaluation.intervals import Share, WeightedShare, binomial_interval, weighted_interval
from fairbound.evaluation.verdicts import Bounds, LimitCertificate, Verdict

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
    "Undefined",
    "Verdict",
    "WeightedShare",
    "audit",
    "binomial_interval",
    "certify",
    "weighted_interval",
]
