"""The paper's preparation of its data sets, reconstructed.

It reproduces the counts of the paper's table of data-set statistics (Law: the training part; Dutch: all rows) and, with
the paper's constants, its printed accuracies:

1. Every column is a number; codes are used as numbers.  The sensitive column is an input, in the order of the file.  It
   is 1/0 (Law, ACSIncome), or 1 = male and 2 = female (Dutch).
2. The label is `pass_bar` (Law), `PINCP` (ACSIncome), or 1 − `occupation` (Dutch, so that 1 is the *less* prestigious
   occupation).
3. For ACSIncome, 50,000 rows are drawn first.  The paper drew from all 195,665 Californian rows, as we do from the file
   of the Census.  Rows drawn from the sample in a data folder are similar to the paper's, but not the same.
4. `RobustScaler` over all rows (Law, Dutch), `train_test_split(test_size=0.2, random_state=1)`, and `StandardScaler`
   fitted on the training part.

Step 4 scales before it splits, because the paper did so.  `Dataset.split` does not.
"""

from __future__ import annotations

import numpy as np
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import RobustScaler

from fairbound.data.arrays import Arrays
from fairbound.data.catalogue import CatalogueEntry, PaperEncoding
from fairbound.data.dataset import Dataset, Split
from fairbound.data.schema import decode

SEED = 1


def paper_split(name: str, source: CatalogueEntry, encoding: PaperEncoding, columns: Arrays) -> Split:
    """Return the training and the test part of the paper's experiments."""
    sensitive = encoding.sensitive
    groups = decode(sensitive.column, columns[sensitive.column], sensitive.labels)
    numbers = columns | {sensitive.column: decode(sensitive.column, groups, encoding.input_codes)}
    features = [column for column in columns if column != source.target]
    labels = columns[source.target].astype(np.int64)
    data = Dataset(
        name=name,
        X=np.column_stack([numbers[column] for column in features]),
        y=1 - labels if encoding.flip_label else labels,
        sensitive={sensitive.name: groups},
        feature_names=features,
        target_names=source.target_names[::-1] if encoding.flip_label else source.target_names,
        description=f"{source.description} Prepared as in the paper's experiments.",
        target=source.target,
    )
    if encoding.draw is not None:
        # The same rows as pandas' DataFrame.sample(n, random_state=SEED).
        data = data.take(np.random.RandomState(SEED).choice(len(data), size=encoding.draw, replace=False))
    train, test = train_test_split(np.arange(len(data)), test_size=0.2, random_state=SEED)
    if encoding.robust:
        data = data.with_inputs(RobustScaler().fit_transform(data.X))
    return Split(data.take(train), data.take(test)).scaled()
