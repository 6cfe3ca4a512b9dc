"""Train, recalibrate without changing a decision, save, load, and export to ONNX with the preprocessing included."""

from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from fairbound import ConstrainedClassifier, load, load_dataset


def main() -> None:
    """Show that all copies make the same decisions."""
    train, test = load_dataset("law").split(test_size=0.2, random_state=0)
    clf = ConstrainedClassifier("disparate_impact >= 0.9")
    clf.fit(train.frame(), train.y, sensitive_features={"race": train.groups("race")})
    decided = clf.predict(test.frame())
    clf.recalibrate(test.frame(), test.y)
    print("decisions moved by the recalibration:", int((clf.predict(test.frame()) != decided).sum()))

    with TemporaryDirectory() as folder:
        clf.save(Path(folder, "model"))
        print(
            "on disk:",
            ", ".join(
                sorted(f"{file.name} ({file.stat().st_size:,} bytes)" for file in Path(folder, "model").iterdir())
            ),
        )
        again = load(Path(folder, "model"))
        same = bool((again.predict_proba(test.frame()) == clf.predict_proba(test.frame())).all())
        print("loaded probabilities identical:", same)
        try:
            import onnxruntime

            clf.to_onnx(Path(folder, "model.onnx"))
        except ImportError as error:
            print(error)
            return
        session = onnxruntime.InferenceSession(str(Path(folder, "model.onnx")), providers=["CPUExecutionProvider"])
        frame = test.frame()
        feed = {
            each.name: frame[each.name].to_numpy(object if "string" in each.type else np.float64)[:, None]
            for each in session.get_inputs()
        }
        (labels,) = session.run(["label"], feed)
        print("ONNX decisions that differ:", int((labels != decided).sum()))


if __name__ == "__main__":
    main()
