"""A study: rows in their parts, a model without limits and one with them, a frontier, and their one summary."""

from fairbound.study.parts import measured
from fairbound.study.summary import Decisions, Run, Sweep, SweptPoint, summarize

__all__ = ["Decisions", "Run", "Sweep", "SweptPoint", "measured", "summarize"]
