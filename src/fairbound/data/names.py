"""Names of columns that commonly protected attributes have."""

from __future__ import annotations

import re

PROTECTED = {
    frozenset(words.split())
    for words in (
        "race", "ethnicity", "ethnic", "ethnic origin", "race ethnicity", "skin color", "skin colour", "caste", "sex",
        "sex birth", "gender", "gender identity", "sexual orientation", "male", "female", "religion", "creed",
        "nationality", "national origin", "native country", "country birth", "citizenship", "disability", "disabled",
        "pregnancy", "pregnant", "marital", "marital sex", "veteran", "age", "birth", "birth date", "birth year",
        "birthdate", "birthday", "dob",
    )
}  # fmt: skip
"""Names of attributes that laws commonly protect, as sets of words."""

BESIDE = frozenset({
    "applicant", "applicants", "at", "band", "borrower", "bracket", "candidate", "category", "class", "client", "code",
    "customer", "employee", "group", "in", "is", "of", "patient", "person", "personal", "reported", "self", "status",
    "the", "type", "user", "worker", "years",
})  # fmt: skip
"""Words beside such a name that do not change its subject.  Others do: the age of a car is not protected."""


def name_words(name: str) -> set[str]:
    """Return the words of a column's name: "customerID" has "customer" and "id"."""
    return set(re.split(r"[^a-z]+", re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name).lower())) - {""}


def is_protected_name(name: str) -> bool:
    """Return whether a column has the name of a commonly protected attribute.  Its values are not considered.

    >>> [is_protected_name(name) for name in ("race", "applicant_sex", "maritalStatus", "Age in years")]
    [True, True, True, True]
    >>> [is_protected_name(name) for name in ("race_time", "car_age", "account age", "sexton", "group")]
    [False, False, False, False, False]
    """
    return frozenset(name_words(name) - BESIDE) in PROTECTED
