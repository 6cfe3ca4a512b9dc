"""The items of the paper by name: what each runs, shows and checks."""

from fairbound.experiments.items.registry import ITEMS, Item

__all__ = ["ITEMS", "Item"]
