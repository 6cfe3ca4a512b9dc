"""What a refusal must say: its parts, not its sentence."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest


@contextmanager
def refused(*parts: str, error: type[Exception] = ValueError) -> Iterator[None]:
    """Expect an error whose message has every part: the value, the argument or the column, the remedy."""
    with pytest.raises(error) as caught:
        yield
    lacking = [part for part in parts if part not in str(caught.value)]
    assert parts
    assert not lacking, f"{lacking} not in: {caught.value}"


def says(text: str, *parts: str) -> bool:
    """Tell whether a text has every part, in this order."""
    assert parts
    place = 0
    for part in parts:
        place = text.find(part, place)
        if place < 0:
            return False
        place += len(part)
    return True
