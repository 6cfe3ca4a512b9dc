"""The version of the package, for all that is written with it."""

__version__ = "0.2.0"
