"""A fitted module on new rows: repeatable logits and probabilities, and recalibration that keeps every decision."""

from fairbound.prediction.forward import ACTIVATIONS, FeedForward, class_probabilities, logits
from fairbound.prediction.recalibration import Recalibration, SidedMap, Temperature, fit_recalibration

__all__ = [
    "ACTIVATIONS",
    "FeedForward",
    "Recalibration",
    "SidedMap",
    "Temperature",
    "class_probabilities",
    "fit_recalibration",
    "logits",
]
