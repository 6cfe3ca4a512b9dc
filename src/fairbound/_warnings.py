"""The warning classes of this package."""


class LimitWarning(UserWarning):
    """A limit is not kept, is hardly meaningful, or does not cover every group."""


class PositiveLabelWarning(UserWarning):
    """A limit depends on which of two labels is the positive one, and `pos_label` was not given."""


class InputScaleWarning(UserWarning):
    """The input columns of a network have very different scales, and are not scaled automatically."""


class SmallGroupWarning(LimitWarning):
    """Small groups were left out of the limits; the result of the fit lists them."""
