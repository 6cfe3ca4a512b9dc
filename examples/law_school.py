"""Law school: predict passing the bar exam, without and with a limit on the ratio of selection rates by race.

Run it with `make demo`.
"""

import torch
from rich.console import Console
from rich.table import Table

from fairbound import DisparateImpact, TrainingProblem, load_dataset
from fairbound.fairness import Cells
from fairbound.training import L2, fit, make_model

LIMIT = DisparateImpact(0.9)


def main() -> None:
    """Train twice and print both outcomes as a table."""
    console = Console()
    data = load_dataset("law").split(random_state=0).train
    cells = Cells.build(data.y, {"race": data.groups("race")})
    outcomes = {}
    for name, constraints in {"no limit": [], str(LIMIT): [LIMIT]}.items():
        with console.status(f"Training on {len(data):,} rows: {name} ..."):
            module = make_model(data.X.shape[1], generator=torch.Generator().manual_seed(1))
            problem = TrainingProblem(module, "binary_cross_entropy", constraints, cells, regularizers=[L2(1e-5)])
            outcomes[name] = fit(problem, data.X)

    table = Table(title="Passing the bar exam, selection rates by race (training rows)", title_justify="left")
    table.add_column("")
    for name in outcomes:
        table.add_column(name, justify="right")
    found = [result.assessment for result in outcomes.values()]
    table.add_row("accuracy", *(f"{each.accuracy:.2%}" for each in found))
    table.add_row("gain over the best constant prediction", *(f"{100 * each.gain:+.2f} points" for each in found))
    for group in found[0].rates["race"]:
        table.add_row(f"selection rate, {group}", *(f"{each.rates['race'][group]:.2%}" for each in found))
    ratios = [min(each.rates["race"].values()) / max(each.rates["race"].values()) for each in found]
    table.add_row("ratio of selection rates", *(f"{ratio:.4f}" for ratio in ratios))
    table.add_row("status", *(result.status.value for result in outcomes.values()))
    table.add_row("time", *(f"{result.seconds:.2f} s" for result in outcomes.values()))
    console.print(table)
    limited = outcomes[str(LIMIT)]
    console.print(f"{limited.message} The ratio is that of the model's own decisions; unseen rows can differ.")


if __name__ == "__main__":
    main()
