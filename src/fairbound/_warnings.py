"""The kinds of warnings of this package."""


class LimitWarning(UserWarning):
    """A limit is not kept, means little, or does not concern every group."""


class PositiveLabelWarning(UserWarning):
    """A limit depends on which of two labels is the positive one, and nobody has said which."""


class InputScaleWarning(UserWarning):
    """The columns of a network that we do not scale have very different scales."""


class SmallGroupWarning(LimitWarning):
    """Groups of few rows were left out of the limits; the record of the fit names them, too."""
