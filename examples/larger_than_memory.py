"""Train on rows in a folder of Parquet files: they are read in batches, and never all at once."""

from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow.parquet as pq

from fairbound import ConstrainedClassifier, make_disparate_data


def main() -> None:
    """Write four files, train on the folder, and decide about the rows of the first file."""
    with TemporaryDirectory() as folder:
        for part in range(4):
            drawn = make_disparate_data(25_000, base_rates={"a": 0.3, "b": 0.6}, seed=part).dataset
            frame = drawn.frame().assign(group=drawn.groups("group"), repaid=drawn.y)
            frame.to_parquet(Path(folder, f"part{part}.parquet"))

        clf = ConstrainedClassifier("disparate_impact >= 0.8")
        clf.fit(folder, "repaid", sensitive_features="group")  # names of columns; all others are inputs
        print(clf.result_)
        rows = pq.read_table(Path(folder, "part0.parquet"))
        selected = clf.predict(rows.drop(["group", "repaid"]))
        print(f"\nselected of the first file: {selected.mean():.2%}")


if __name__ == "__main__":
    main()
