"""The figures and tables of the paper by name, with their runs, tables and checks."""

from fairbound.experiments.items.registry import ITEMS, Item

__all__ = ["ITEMS", "Item"]
