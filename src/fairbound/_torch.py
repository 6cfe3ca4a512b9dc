"""torch, loaded when one of its names is first used: limits, measures and audits need none of it."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any


class _Late(ModuleType):
    """A module that is imported when it is first asked for a name."""

    def __getattr__(self, name: str) -> Any:
        value = getattr(import_module(self.__name__), name)
        setattr(self, name, value)
        return value


if TYPE_CHECKING:
    import torch
else:
    torch = _Late("torch")

__all__ = ["torch"]
