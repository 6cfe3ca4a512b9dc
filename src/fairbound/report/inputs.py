"""The inputs that matter most to the model: by coefficient, or by the loss of shuffling them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fairbound._words import count
from fairbound.report import numbers

SAYS = {
    "coefficients": (
        "{which}. Each says by how much the log-odds of {what} move when the input "
        "rises by one standard deviation and all others stay; above zero makes that prediction more likely."
    ),
    "importances": (
        "{which}. Each number says by how much the loss on {rows} rows rises "
        "when the values of the column are shuffled, so that they no longer tell anything about the row."
    ),
}
HEADINGS = {"coefficients": "Coefficient", "importances": "Rise of the loss"}
CAVEAT = (
    "This describes the model, not the world: it does not say what causes the outcome, nor what would happen if an "
    "input were changed. Inputs that tell the same share their weight, so a small number does not mean that an input "
    "is of no use. An input can also stand in for a group that the model is not told."
)


@dataclass(frozen=True)
class InputLine:
    """One input: its name, its class if there are several, its value, and a bar."""

    name: str
    label: str
    value: str
    side: str
    width: float


@dataclass(frozen=True)
class ModelView:
    """The inputs, and sentences before and after them."""

    says: str
    heading: str
    lines: tuple[InputLine, ...]
    several: bool
    caveat: str = CAVEAT


def model_view(model: Mapping[str, Any] | None, names: Mapping[str, str]) -> ModelView | None:
    """Return the view of the model, or None if the summary has none."""
    if not model or not model["inputs"]:
        return None
    inputs = model["inputs"]
    largest = max(abs(each["value"]) for each in inputs) or 1.0
    several = any(each["label"] is not None for each in inputs)
    what = "the class" if several else f"“{list(names.values())[-1]}”"
    return ModelView(
        SAYS[model["kind"]].format(
            which=_which(model["kind"], len(inputs), model["total"]),
            what=what,
            rows=model["rows"],
        ),
        HEADINGS[model["kind"]],
        tuple(
            InputLine(
                str(each["name"]),
                "" if each["label"] is None else names.get(each["label"], each["label"]),
                numbers.signed(each["value"]) if model["kind"] == "coefficients" else numbers.about(each["value"]),
                "above" if each["value"] >= 0 else "below",
                round(100.0 * abs(each["value"]) / largest, 2),
            )
            for each in inputs
        ),
        several,
    )


def _which(kind: str, shown: int, total: int) -> str:
    """Return how many inputs there are, and which of them are shown.

    >>> _which("coefficients", 20, 31), _which("importances", 1, 1)
    ('20 of 31 coefficients, the largest first', 'The only column')
    """
    noun, first = ("coefficient", "largest") if kind == "coefficients" else ("column", "most important")
    if total == 1:
        return f"The only {noun}"
    return f"{'All' if shown == total else f'{shown} of'} {count(total)} {noun}s, the {first} first"
