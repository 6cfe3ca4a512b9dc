"""A study: rows in their parts, and models trained on the first of them.

    training      what models learn from
    calibration   with a confidence: what they are tested on before one is chosen
    held_out      what nobody has seen, for the evaluation

All draws are stratified on label and groups, and come from one seed.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from fairbound.cli.output import Output

if TYPE_CHECKING:
    from fairbound.data import Backend, Dataset
    from fairbound.estimator import ConstrainedClassifier, FrontierModel
    from fairbound.fairness import Constraint

CALIBRATION = 0.3
"""Share of the rows that are not held out, on which models are tested when a confidence is asked for."""

BACKENDS: tuple[Backend, ...] = ("pyarrow", "polars", "pandas")


MOST_SMALL_GROUPS = 10
"""Small groups of a column of numbers above which it is taken for a quantity."""


@dataclass(frozen=True)
class Settings:
    """How models are trained."""

    model: str = "linear"
    hidden: tuple[int, ...] = ()
    seed: int = 0
    groups: str = "each"
    small_groups: str = "error"
    min_group_size: int = 10
    max_categories: int = 50


@dataclass(frozen=True)
class Part:
    """Rows as the estimator and the evaluation take them: a table, words for labels, groups by column."""

    data: Dataset
    X: Any = field(repr=False)
    y: Any = field(repr=False)

    @classmethod
    def of(cls, data: Dataset) -> Part:
        """Make the table, by whichever library is there."""
        import numpy as np

        return cls(data, data.frame(backend=table_backend()), np.array(data.target_names)[data.y])

    def __len__(self) -> int:
        return len(self.data)

    @property
    def sensitive(self) -> dict[str, Any]:
        """The groups."""
        return dict(self.data.sensitive)

    @property
    def weight(self) -> Any:
        """How much each row counts; None where all count alike."""
        return self.data.weight


@dataclass(frozen=True)
class Study:
    """Rows in their parts."""

    whole: Dataset
    training: Part
    calibration: Part | None
    held_out: Part | None
    settings: Settings
    remarks: tuple[str, ...] = ()

    @classmethod
    def open(
        cls,
        data: Dataset,
        test: float,
        confidence: float | None,
        settings: Settings,
        *,
        limited: bool,
        held_out: Dataset | None = None,
    ) -> Study:
        """Draw the parts.

        Parameters
        ----------
        data : Dataset
            All rows, or all but those held out.
        test : float
            Share of the rows to hold out.
        confidence : float, optional
            With it, a calibration part is set apart.
        settings : Settings
        limited : bool
            Whether there are limits; then groups of few rows are refused, unless the settings say otherwise.
        held_out : Dataset, optional
            Rows of another file to hold out; `test` is 0 then.
        """
        import numpy as np

        from fairbound.cli.first_look import remarks

        if not 0 <= test < 1:
            raise ValueError(f"--test is {test:g}; give a share of the rows, from 0 (none) and below 1.")
        if len(data) < 2:
            raise ValueError(f"{data.name} has one row; give more to train on and to hold out.")
        if limited and settings.small_groups == "error":
            check_group_sizes(data, settings.min_group_size, settings.groups, confident=confidence is not None)
        # One stream of draws, so that the parts do not depend on each other by sharing a seed.
        draws = np.random.RandomState(settings.seed)
        rest = data
        if test > 0:
            rest, held_out = data.split(test, random_state=draws, scale=False)
        calibration = None
        if confidence is not None:
            rest, calibration = rest.split(CALIBRATION, random_state=draws, scale=False)
        if limited and settings.small_groups == "error" and settings.groups != "each":
            check_group_sizes(rest, settings.min_group_size, settings.groups, confident=confidence is not None)
        parts = [None if part is None else Part.of(part) for part in (rest, calibration, held_out)]
        assert parts[0] is not None
        return cls(data, parts[0], parts[1], parts[2], settings, tuple(remarks(data)))

    @property
    def positive(self) -> str | None:
        """The positive one of two labels."""
        return str(self.whole.target_names[1]) if len(self.whole.target_names) == 2 else None

    def classifier(self, limits: Sequence[Constraint], callback: Callable[[dict[str, Any]], bool]) -> Any:
        """Return a classifier that is not fitted yet."""
        from fairbound.estimator import ConstrainedClassifier

        settings = self.settings
        return ConstrainedClassifier(
            list(limits),
            hidden=settings.hidden,
            pos_label=self.positive,
            groups=settings.groups,
            small_groups=settings.small_groups,
            min_group_size=settings.min_group_size,
            max_categories=settings.max_categories,
            random_state=settings.seed,
            callbacks=[callback],
        )

    def fit(
        self,
        limits: Sequence[Constraint],
        callback: Callable[[dict[str, Any]], bool],
        confidence: float | None = None,
    ) -> tuple[ConstrainedClassifier, list[str]]:
        """Train on the training rows; return the classifier, and what it warned of.

        With a confidence the models are tested on the calibration rows.
        """
        apart = self.calibration if confidence is not None else None
        with _caught() as warned:
            fitted = (
                self.classifier(limits, callback)
                .set_params(confidence=confidence)
                .fit(
                    self.training.X,
                    self.training.y,
                    sensitive_features=self.training.sensitive,
                    sample_weight=self.training.weight,
                    calibration_set=None if apart is None else (apart.X, apart.y, apart.sensitive),
                )
            )
        fitted.callbacks = ()  # they belong to this run, and not to the model
        fitted.formats_ = {name: form for name, form in self.whole.formats.items() if name in self.whole.schema}
        said = fitted.result_.message  # which is shown by itself
        return fitted, [text for text in warned if said not in text]

    def frontier(
        self, limits: Sequence[Constraint], bounds: Sequence[float], callback: Callable[[dict[str, Any]], bool]
    ) -> tuple[FrontierModel, ...]:
        """Train a classifier for each bound of the first limit; the records say what there is to warn of."""
        with _caught():
            found = self.classifier(limits, callback).frontier(
                self.training.X,
                self.training.y,
                bounds,
                sensitive_features=self.training.sensitive,
                sample_weight=self.training.weight,
            )
        for each in found:
            each.classifier.callbacks = ()  # they belong to this run, and not to the model
        return found

    def described(self) -> str:
        """The study in a sentence."""
        sizes = [f"{len(self.training):,} for training"]
        if self.calibration is not None:
            sizes.append(f"{len(self.calibration):,} for calibration")
        sizes.append(f"{len(self.held_out):,} held out" if self.held_out is not None else "none held out")
        positive = f" (positive: {self.positive})" if self.positive is not None else ""
        return (
            f"{self.whole.name}: {len(self.whole):,} rows, {', '.join(sizes)}. Label: {self.whole.target}{positive}. "
            f"Groups: {', '.join(self.whole.sensitive)}."
        )


def check_limited_columns(limits: Sequence[Constraint], data: Dataset, groups: str) -> None:
    """Refuse a limit on a column that is not sensitive before anything is trained; intersections are made later."""
    for limit in limits:
        for name in limit.columns or ():
            if groups == "each" and name not in data.sensitive:
                held = any(name in map(str, values.tolist()) for values in data.sensitive.values())
                remedy = (
                    f"for the rate of one group, give it in square brackets, [{name}]."
                    if held
                    else "name it with --sensitive, too."
                )
                raise ValueError(
                    f"{str(limit)!r} is about the groups of {name!r}, which is not among the sensitive columns "
                    f"({', '.join(data.sensitive)}); {remedy}"
                )


def check_group_sizes(data: Dataset, least: int, groups: str = "each", *, confident: bool = False) -> None:
    """Refuse groups of few rows before anything is trained; a part that is drawn may have none of them."""
    from fairbound.data import is_missing

    for name, values in _group_columns(data, groups).items():
        sizes = Counter(values[~is_missing(values)].tolist())
        few = {group: rows for group, rows in sizes.items() if rows < least}
        if few:
            listed = ", ".join(f"{group!r} with {rows}" for group, rows in list(few.items())[:5])
            if len(few) > MOST_SMALL_GROUPS and values.dtype.kind in "iuf":
                raise ValueError(
                    f"Column {name!r} (--sensitive) has {len(sizes):,} different numbers, most of them in few rows; "
                    f"sort them into groups with bands, for example --bands {name} {_middle(values)}."
                )
            # A confidence speaks of every group, so that no group can be left out or merged.
            remedy = (
                "join them with other groups in the file, or train without --confidence."
                if confident
                else "leave them out of the limits with --small-groups warn, or make one group of them with "
                "--small-groups merge."
            )
            raise ValueError(
                f"Column {name!r} (--sensitive) has groups of fewer than {least} rows (--min-group-size): {listed}; "
                f"{remedy}"
            )


def _group_columns(data: Dataset, groups: str) -> dict[str, Any]:
    """Return the groups by column, their intersection among them where it is asked for."""
    import numpy as np

    from fairbound.data import is_missing

    columns = dict(data.sensitive)
    if groups == "each" or len(columns) < 2:
        return columns
    joined = np.array([" & ".join(map(str, row)) for row in zip(*columns.values(), strict=True)], dtype=object)
    joined[np.any([is_missing(values) for values in columns.values()], axis=0)] = None
    return {**(columns if groups == "both" else {}), " & ".join(columns): joined}


def _middle(values: Any) -> str:
    """Return two cuts that make groups of about equal size, as an example of how bands are written."""
    import numpy as np

    return ",".join(f"{cut:g}" for cut in np.unique(np.nanquantile(values, (1 / 3, 2 / 3)).round()))


def progress(output: Output, name: str) -> Callable[[dict[str, Any]], None]:
    """Return a callback that shows where training is."""

    def show(row: dict[str, Any]) -> None:
        step = row.get("iteration", row.get("epoch", 0))
        bound = f", bound {row['bound']:g}" if isinstance(row.get("bound"), float) else ""
        output.update(f"{name}{bound}: {row.get('phase', 'training')}, step {step}")

    return show


@contextmanager
def _caught() -> Iterator[list[str]]:
    """Collect what training warns of, in place of printing it."""
    from fairbound._warnings import LimitWarning, SmallGroupWarning

    texts: list[str] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", LimitWarning)
        yield texts
    # The record of the fit names small groups, too, and the summary takes them from there.
    kinds = [(each.category, str(each.message)) for each in caught]
    texts += [
        text for kind, text in kinds if issubclass(kind, LimitWarning) and not issubclass(kind, SmallGroupWarning)
    ]


def table_backend() -> Backend:
    """Return the library that makes the tables: the first that is installed, the quickest first, or none."""
    from fairbound.data import installed_backend

    return installed_backend(BACKENDS)
