"""Log a fit with MLflow: every iteration, the limits as metrics, and the model in the pyfunc flavour.

It needs `pip install mlflow-skinny sqlalchemy alembic`.
"""

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import mlflow

from fairbound import ConstrainedClassifier, load, load_dataset


class LogIterations:
    """A callback of `ConstrainedClassifier`: numbers of each iteration become metrics of the run."""

    def __init__(self) -> None:
        self.step = 0

    def __call__(self, row: dict[str, Any]) -> None:
        """Log a row of the history; to return nothing lets the fit go on."""
        self.step += 1
        mlflow.log_metrics({name: row[name] for name in ("f", "violation") if row.get(name) is not None}, self.step)


class DecisionModel(mlflow.pyfunc.PythonModel):
    """The flavour: a saved folder of fairbound, which holds no code, loaded when the model is served."""

    def load_context(self, context: Any) -> None:
        """Load the folder."""
        self.model = load(context.artifacts["model"])

    def predict(self, context, model_input, params=None):  # MLflow would read type hints as a schema
        """Return the decisions."""
        return self.model.predict(model_input)


def log_result(clf: ConstrainedClassifier) -> None:
    """Log what was asked, what was reached, and what is expected of new rows."""
    mlflow.log_params({f"limit {place}": each.limit for place, each in enumerate(clf.result_.limits)})
    mlflow.log_metrics({f"reached {place}": each.reached for place, each in enumerate(clf.result_.limits)})
    mlflow.log_metrics({"accuracy": clf.result_.accuracy, "holds on new rows": clf.result_.forecast.holds})
    mlflow.log_text(str(clf.result_), "result.txt")


def main() -> None:
    """Train, log, load the logged model, and compare its decisions."""
    law = load_dataset("law")
    with TemporaryDirectory() as folder:
        mlflow.set_tracking_uri(f"sqlite:///{folder}/runs.db")
        with mlflow.start_run(experiment_id=mlflow.create_experiment("law", artifact_location=folder)):
            clf = ConstrainedClassifier("disparate_impact >= 0.9", callbacks=[LogIterations()])
            clf.fit(law.frame(), law.y, sensitive_features=law.groups("race"))
            log_result(clf)
            clf.save(Path(folder, "model"))
            saved = {"model": f"{folder}/model"}
            logged = mlflow.pyfunc.log_model(name="model", python_model=DecisionModel(), artifacts=saved)
        again = mlflow.pyfunc.load_model(logged.model_uri)
        print("decisions that differ:", int((again.predict(law.frame()) != clf.predict(law.frame())).sum()))


if __name__ == "__main__":
    main()
