"""Documents that rules ask for: figures of the run, gaps by name, hashes and room for signatures."""

from __future__ import annotations

import hashlib
import re

import pytest
from tests.report.example import HOSTILE, edited, hostile_summary, law_summary

from fairbound.report import DOCUMENTS, to_document

SEARCH = {
    "sentence": "Among the 3 models searched, none is better.",
    "verdict": "No candidate is within the tolerance: none is chosen.",
    "note": "A note.",
    "data": {"name": "other.csv", "rows": 1200, "sha256": "ab" * 32},
    "lock": {"sha256": "cd" * 32, "written": "2026-01-31T12:00:00+00:00"},
    "plan": {"measures": ["disparate_impact"]},
    "chosen": None,
    "candidates": [
        {
            "name": "linear, no limit",
            "within": True,
            "judged": {"accuracy": {"value": 0.9}, "measures": {"disparate_impact": {"value": 0.75}}, "changed": 12},
        }
    ],
}
GAPS = {
    "annex-iv": ("intended purpose", "oversight", "signatures"),
    "california": ("independent", "accommodation", "was decided"),
    "colorado": ("external consumer data", "BIFSG", "board", "Third parties"),
    "model-risk": ("independently", "materiality", "approval", "stress"),
    "new-jersey": ("necessary to achieve", "related to the job", "vendor"),
}


@pytest.mark.parametrize("kind", DOCUMENTS)
def test_a_document_has_the_figures_gaps_hashes_and_signatures(kind):
    summary = law_summary()
    text = to_document(summary, kind)
    for group in summary.held_out.after.groups:
        found = group.rate("accuracy")
        assert f"{found.value:.3f} ({found.lower:.3f} to {found.upper:.3f})" in text
    assert hashlib.sha256(summary.to_json().encode()).hexdigest() in text
    assert "| Approved by | | | |" in text
    assert "It does not say that a requirement is met." in text
    gaps = " ".join(re.findall(r"^- \*\*Gap\*\*, for a person to fill in: (.+)$", text, re.MULTILINE))
    for words in GAPS[kind]:
        assert words in gaps
    assert "complian" not in text.lower()
    assert "{" not in text


@pytest.mark.parametrize("kind", DOCUMENTS)
def test_names_of_users_are_text(kind):
    text = re.sub(r"`[^`\n]*`", "", to_document(hostile_summary(), kind))  # a code span is text already
    assert "<script" not in text
    assert HOSTILE[0] not in text


def test_rows_that_a_model_was_fitted_to_have_no_intervals():
    with edited(law_summary()) as values:
        values["held_out"] = None
        for point in values["frontier"]:
            point["held_out"] = None
        values["training"]["before"] = values["training"]["accuracy"]["before"] = None
    text = to_document(values.summary, "new-jersey")
    assert "none were held out" in text
    assert re.search(r"^- Accuracy, training rows: [0-9.]+%; best constant", text, re.MULTILINE)
    assert not re.search(r"\| 0\.\d{3} \(", text)


@pytest.mark.parametrize("kind", ["california", "colorado", "model-risk", "new-jersey"])
def test_a_search_for_alternatives_fills_its_gap(kind):
    without, found = (to_document(law_summary(), kind, search=search) for search in (None, SEARCH))
    assert "fairbound alternatives makes one" in without
    assert "fairbound alternatives makes one" not in found
    assert SEARCH["sentence"] in found
    assert SEARCH["lock"]["sha256"] in found
    assert f"- Data of the search: other.csv, 1,200 rows, SHA-256 {'ab' * 32}" in found
    assert "| linear, no limit | 90.00% | 0.750 | 12 | within the tolerance |" in found


def test_an_unknown_kind_is_refused():
    with pytest.raises(ValueError, match="Did you mean 'new-jersey'"):
        to_document(law_summary(), "new-jersy")
