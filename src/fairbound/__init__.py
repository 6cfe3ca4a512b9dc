"""fairbound: classifiers trained under stated, hard limits on measured group disparities."""

__version__ = "0.1.0"
