"""Tables in, numbers out: columns of any kind, an encoder fitted on the training rows, and the groups of the rows."""

from fairbound.preprocessing.encoder import CategoryColumn, NumberColumn, TableEncoder
from fairbound.preprocessing.tables import Inputs, read_inputs

__all__ = ["CategoryColumn", "Inputs", "NumberColumn", "TableEncoder", "read_inputs"]
