"""Reports: a summary of a run in; one HTML file, a Markdown model card, or JSON out.

    summarise   `fairbound.studies.summarize` gathers everything in one dictionary
    render      this room turns that dictionary, and nothing else, into pages

`words` and `caveats` hold the sentences of all formats, `numbers` how a number is written, `limits`, `tables` and
`figures` what is shown of limits, groups and iterations, `tradeoff` the frontier; `page` and `card` put them together.
"""

from fairbound.report.audit import audit_to_html
from fairbound.report.card import to_markdown
from fairbound.report.files import NAMES, holds_summary, write_report
from fairbound.report.numbers import MINUS
from fairbound.report.page import to_html
from fairbound.report.schema import check_summary, read_summary, to_json
from fairbound.report.templating import environment, policy, resource

__all__ = [
    "MINUS",
    "NAMES",
    "audit_to_html",
    "check_summary",
    "environment",
    "holds_summary",
    "policy",
    "read_summary",
    "resource",
    "to_html",
    "to_json",
    "to_markdown",
    "write_report",
]
