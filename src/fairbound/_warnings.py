"""The one kind of warning of this package."""


class LimitWarning(UserWarning):
    """A limit is not kept, means little, or does not concern every group."""
