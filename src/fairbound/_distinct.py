"""The distinct values of arrays, and the position of each element among them."""

from __future__ import annotations

from typing import Any

import numpy as np


def distinct(array: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the distinct values in order, and the position of each element among them, as `np.unique` does.

    Labels and groups are whole numbers of a small range, or few words.  Counting or hashing them is ten times faster
    than sorting them.

    >>> distinct(np.array([7, 5, 7]))
    (array([5, 7]), array([1, 0, 1]))
    """
    if array.ndim == 1 and len(array) and array.dtype.kind in "iub":
        low, high = int(array.min()), int(array.max())
        if high - low <= len(array) and max(-low, high) < 2**62:
            shifted = array.astype(np.int64) - low
            present = np.bincount(shifted, minlength=high - low + 1) > 0
            return (np.flatnonzero(present) + low).astype(array.dtype), (np.cumsum(present) - 1)[shifted]
    if array.ndim == 1 and array.dtype.kind in "US":
        few = _few_words(array)
        if few is not None:
            return few
        listed = array.tolist()
        values = sorted(set(listed))
        places = {value: place for place, value in enumerate(values)}
        codes = np.fromiter((places[value] for value in listed), np.int64, len(listed))
        return np.array(values, dtype=array.dtype), codes
    return np.unique(array, return_inverse=True)


FEW = 8
"""Up to this number of distinct words, comparing the array with each word is faster than hashing every element."""


def _few_words(array: np.ndarray) -> tuple[np.ndarray, np.ndarray] | None:
    """Return the distinct words in order, and the position of each element; None if there are more than a few."""
    codes, left, words = np.empty(len(array), dtype=np.int64), np.arange(len(array)), list[Any]()
    while len(left):
        if len(words) == FEW:
            return None
        words.append(array[left[0]])
        same = array[left] == words[-1]
        codes[left[same]] = len(words) - 1
        left = left[~same]
    order = np.argsort(np.array(words, dtype=array.dtype))
    return np.array(words, dtype=array.dtype)[order], np.argsort(order)[codes]


def combine_codes(codes: list[np.ndarray], sizes: list[int]) -> tuple[np.ndarray, np.ndarray]:
    """Return the distinct combinations of codes (−1 if missing) in order, and for each row the position of its own."""
    whole = np.zeros(len(codes[0]), dtype=np.int64)
    for code, size in zip(codes, sizes, strict=True):  # codes are the digits of a number, first column first
        whole = distinct(whole)[1] * (size + 1) + code + 1
    found, atom = distinct(whole)
    row = np.empty(len(found), dtype=np.int64)  # some row of each combination
    row[atom] = np.arange(len(whole))
    return np.stack([code[row] for code in codes], axis=1), atom
