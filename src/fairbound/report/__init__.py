"""Reports: the summary of a study as one HTML file or a Markdown model card; pages of audits, searches and monitors.

`words` has the sentences of all formats, `caveats` what the numbers do not say, and `numbers` formats numbers.
`tables`, `figures` and `tradeoff` prepare what a template cannot; the templates do the rest.
"""

from fairbound.report.audit import audit_to_html, ll144_to_html
from fairbound.report.monitor import monitor_to_html
from fairbound.report.numbers import MINUS
from fairbound.report.page import DOCUMENTS, NAMES, to_document, to_html, to_markdown, write_report
from fairbound.report.search import search_to_html
from fairbound.report.templating import environment, policy, resource
from fairbound.report.words import in_short

__all__ = [
    "DOCUMENTS",
    "MINUS",
    "NAMES",
    "audit_to_html",
    "environment",
    "in_short",
    "ll144_to_html",
    "monitor_to_html",
    "policy",
    "resource",
    "search_to_html",
    "to_document",
    "to_html",
    "to_markdown",
    "write_report",
]
