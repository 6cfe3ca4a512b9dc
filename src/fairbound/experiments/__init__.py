"""Reproduce the paper's figures and tables by name, and compare them with the printed numbers.

A reproduction can be interrupted and resumed.
"""

from fairbound.experiments.protocol import DATASETS, EPOCHS, TITLES
from fairbound.experiments.reproduction import Reproduction, Request, reproduce

__all__ = ["DATASETS", "EPOCHS", "TITLES", "Reproduction", "Request", "reproduce"]
