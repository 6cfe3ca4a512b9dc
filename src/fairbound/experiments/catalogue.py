"""The names and titles of the figures and tables that can be reproduced, in the order of the paper.

This module imports nothing, so that `fairbound reproduce --list` is fast.
"""

from __future__ import annotations

TITLES: dict[str, str] = {
    "figure-1": "the surrogates, as they are and scaled",
    "figure-2": "ratios demanded and achieved without scaling",
    "figure-3": "ratios demanded and achieved with scaling, and limits on the covariance",
    "scale-selection": "the choice of the scale among 1, 5, 10, 20, 50, 100",
    "figure-4": "accuracy and violation under each limit",
    "figure-5": "constraints against regularisation",
    "search-cost": "what a demanded ratio costs: one constrained fit, or a search over penalties",
    "figure-variance": "accuracy and violation over five random starts",
    "table-1": "statistics of the data",
    "table-2": "limits on disparate impact, equal impact and both, at 0.8",
    "table-3": "time and memory",
    "table-4": "limits on disparate impact, equal impact and both, at 0.9",
}
