"""Reports: convert the summary of a run to one HTML file, a Markdown model card, or JSON.

    summarise   `fairbound.studies.summarize` collects everything in one dictionary
    render      this package converts that dictionary, and nothing else, to pages

`words` has the sentences of all formats, and `numbers` formats numbers.  `tables` and `tradeoff` prepare groups and the
frontier.  `page`, with the tables of limits, and `card` assemble the HTML page and the model card; `audit` and `pages`
have the pages of audits, searches and monitors, and `templating` the engine and the figures of all pages.
"""

from fairbound.report.audit import audit_to_html
from fairbound.report.card import NAMES, holds_summary, to_markdown, write_report
from fairbound.report.numbers import MINUS
from fairbound.report.page import check_summary, read_summary, to_html, to_json
from fairbound.report.pages import monitor_to_html, search_to_html
from fairbound.report.templating import environment, policy, resource
from fairbound.report.words import headline

__all__ = [
    "MINUS",
    "NAMES",
    "audit_to_html",
    "check_summary",
    "environment",
    "headline",
    "holds_summary",
    "monitor_to_html",
    "policy",
    "read_summary",
    "resource",
    "search_to_html",
    "to_html",
    "to_json",
    "to_markdown",
    "write_report",
]
