"""What decisions do, measured by group: the audit, intervals, the certificate, and the summary of a run.

The measures are those of `fairbound.fairness`; this room adds how well the rows know them.
"""

from fairbound.evaluation.audit import audit
from fairbound.evaluation.audited import Audit, Estimate, GroupAudit, MeasureAudit, Undefined
from fairbound.evaluation.certificate import Certificate, RateInterval, certify
from fairbound.evaluation.intervals import Share, WeightedShare, binomial_interval, weighted_interval
from fairbound.evaluation.summary import Decisions, Run, Sweep, SweptPoint, summarize
from fairbound.evaluation.verdicts import Bounds, LimitCertificate, Verdict

__all__ = [
    "Audit",
    "Bounds",
    "Certificate",
    "Decisions",
    "Estimate",
    "GroupAudit",
    "LimitCertificate",
    "MeasureAudit",
    "RateInterval",
    "Run",
    "Share",
    "Sweep",
    "SweptPoint",
    "Undefined",
    "Verdict",
    "WeightedShare",
    "audit",
    "binomial_interval",
    "certify",
    "summarize",
    "weighted_interval",
]
