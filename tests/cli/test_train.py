"""`fairbound train`: what it writes, prints and answers."""

from __future__ import annotations

import html
import json
import re
import signal
from dataclasses import replace

import numpy as np
import pytest
from tests.cli.helpers import LIMIT, LOAN_COLUMNS, LOANS, interrupt_when, loan_rows, write_csv
from tests.refusals import says

from fairbound import Groups, load, read_table
from fairbound.cli.output import load_model
from fairbound.cli.studying import STEPS
from fairbound.fairness import Sigmoid, Tanh
from fairbound.report import write_report
from fairbound.studies.settings import hidden_layers

FILES = {"limits.lock", "model", "model-card.md", "report.html", "summary.json"}


def test_train_under_a_limit(fairbound, loans, tmp_path):
    found = fairbound("train", loans, *LOANS, "--require", LIMIT, "--out", "run")
    assert "1,200 for training, 300 held out" in found.stdout
    assert "no limit" in found.stdout
    assert "with limits" in found.stdout
    assert "gain over the best constant prediction" in found.stdout
    (line,) = re.findall(rf"^  {re.escape(LIMIT)}  .*$", found.stdout, re.MULTILINE)
    assert "  female / male  " in line
    before_tables = found.stdout[: found.stdout.index("300 held-out rows\n")]
    for words in ("What was asked?", "What holds on new rows?", "What did it cost?"):
        assert words in before_tables
    assert len(re.findall("^(?:Note|Forecast|disparate_impact)", found.stdout, re.MULTILINE)) <= 10
    assert "Training under the limits ..." in found.stderr  # progress, one line for each stage
    run = tmp_path / "run"
    assert {each.name for each in run.iterdir()} == FILES
    assert [each.name for each in tmp_path.iterdir() if each.name.startswith(".")] == []
    metrics = json.loads((run / "summary.json").read_text(encoding="utf-8"))
    held_out = metrics["held_out"]["limits"][0]["after"]
    assert metrics["kept"] == held_out["kept"] == (held_out["value"] >= 0.8 - 1e-12)
    assert found.code == (0 if metrics["kept"] else 1)
    assert metrics["training"]["limits"][0]["after"]["value"] >= 0.8 - 1e-12
    assert metrics["training"]["limits"][0]["before"]["value"] < 0.8
    assert [metrics[part]["after"]["rows"] for part in ("training", "held_out")] == [1200, 300]
    command = metrics["reproduction"]["command"]
    assert command.startswith("fairbound train ")
    assert f"--require '{LIMIT}' --out run" in command


def test_the_model_is_the_one_that_the_numbers_speak_of(fairbound, loans, tmp_path):
    found = fairbound("train", loans, *LOANS, "--require", LIMIT, "--test", 0, "--out", "run", "--json")
    metrics = json.loads(found.stdout)
    data = read_table(loans, target="approved", sensitive="sex", ignore="id")
    decided = load_model(str(tmp_path / "run")).predict(data.frame())
    rates = {sex: np.mean(decided[data.sensitive["sex"] == sex] == "1") for sex in ("female", "male")}
    reached = metrics["training"]["limits"][0]["after"]["value"]
    assert reached == pytest.approx(rates["female"] / rates["male"], abs=1e-12)  # counts over counts
    accuracy = np.mean(decided == np.array(data.target_names)[data.y])
    assert metrics["training"]["accuracy"]["after"]["value"] == pytest.approx(accuracy, abs=1e-12)


def test_the_same_seed_gives_the_same_model(fairbound, loans, tmp_path):
    for out, seed in (("a", 3), ("b", 3), ("c", 4)):
        assert fairbound("train", loans, *LOANS, "--out", out, "--seed", seed, "--quiet").code == 0
    a, b, c = (json.loads((tmp_path / out / "model" / "model.json").read_text())["data"] for out in "abc")
    assert a == b
    assert a != c  # other rows are held out


def test_quiet_and_json(fairbound, loans):
    quiet = fairbound("train", loans, *LOANS, "--out", "a", "--quiet")
    assert (quiet.code, quiet.stdout, quiet.stderr) == (0, "", "")
    machine = fairbound("train", loans, *LOANS, "--out", "b", "--json", "--quiet")
    assert json.loads(machine.stdout)["command"] == "train"
    assert machine.stderr == ""


def test_without_limits_it_suggests_some(fairbound, loans):
    found = fairbound("train", loans, *LOANS, "--out", "look")
    assert found.code == 0
    assert "Limits to try" in found.stdout
    assert LIMIT in found.stdout
    assert all(measure in found.stdout for measure in STEPS)
    assert "with limits" not in found.stdout


@pytest.mark.slow
def test_train_for_a_confidence(fairbound, tmp_path):
    # Enough rows that a model with equal rates passes, whatever the draw.
    path = write_csv(tmp_path / "loans.csv", LOAN_COLUMNS, loan_rows(4000))
    found = fairbound(
        "train", path, *LOANS, "--require", "disparate_impact >= 0.6", "--confidence", 0.9, "--out", "run"
    )  # fmt: skip
    assert found.code == 0
    assert "2,240 for training, 960 for calibration, 800 held out" in found.stdout
    assert "Claim: the probability that this procedure returns a model that breaks a limit" in found.stdout
    metrics = json.loads((tmp_path / "run" / "summary.json").read_text(encoding="utf-8"))
    certificate = metrics["fit"]["certificate"]
    assert [limit["verdict"] for limit in certificate["limits"]] == ["PASS"]
    assert certificate["confidence"] == 0.9
    assert certificate["rows"] == 960
    assert metrics["limits"][0]["text"] == "disparate_impact >= 0.6"


def test_what_is_not_certified_has_exit_code_1(fairbound, tmp_path):
    path = write_csv(tmp_path / "loans.csv", LOAN_COLUMNS, loan_rows(200))
    found = fairbound(
        "train", path, *LOANS, "--require", "disparate_impact >= 0.95", "--confidence", 0.99, "--out", "run"
    )  # fmt: skip
    assert found.code == 1
    flat = " ".join(found.stdout.split())
    assert says(flat, "No model passed at 99%", "nothing is claimed")
    assert "It does not show disparate_impact >= 0.95: " in flat
    assert re.search(r"Least sure is selection_rate\(\w+\) >= 0\.95 selection_rate\(\w+\): \w+ has \d+ rows", flat)
    assert (tmp_path / "run" / "report.html").is_file()


def test_limits_that_exclude_each_other_are_named_by_training(fairbound, loans):
    for name, limits in {
        "one": ["selection_rate >= 0.6", "selection_rate <= 0.3"],
        "two": ["0.5 <= accuracy[male] <= 1", "accuracy <= 0.4"],
    }.items():
        told = fairbound("train", loans, *LOANS, "--require", *limits, "--out", name)
        assert told.code == 1
        named = told.stdout.partition("In conflict: ")[2].partition("\n")[0]
        assert all(limit.replace("0.5 <= accuracy[male] <= 1", "accuracy[male]") in named for limit in limits)


@pytest.mark.parametrize("memory", [[], ["--memory", "1KB"]])
@pytest.mark.parametrize("limit", ["selection_rate[femal] >= 0.5", "disparate_impact >= 0.8 against femal"])
def test_a_limit_on_an_unknown_group_is_refused_before_training(fairbound, loans, tmp_path, limit, memory):
    """The model without limits was trained first."""
    refused = fairbound("train", loans, *LOANS, "--require", limit, *memory, "--out", "run")
    assert refused.code == 2
    assert "Training" not in refused.stderr
    assert says(refused.stderr.splitlines()[-1], "group 'femal'", "'sex'", "Did you mean 'female'?", "'female', 'male'")
    assert not (tmp_path / "run").exists()


def test_a_limit_that_no_model_keeps_has_exit_code_1(fairbound, loans, tmp_path):
    # The ratio does not follow from the bounds of the two rates alone, so it takes training to find out.
    limits = ["selection_rate[male] <= 0.1", "selection_rate[female] >= 0.9", "disparate_impact >= 0.95"]
    found = fairbound("train", loans, *LOANS, "--require", *limits, "--out", "run")
    assert found.code == 1
    assert "NOT KEPT" in found.stdout
    assert not json.loads((tmp_path / "run" / "summary.json").read_text(encoding="utf-8"))["kept"]


def test_the_first_line_is_about_rows_not_trained_on(fairbound, tmp_path):
    """The words "All limits are kept" stood above a held-out value beyond the limit, with exit code 0."""
    codes = set()
    for seed in range(4):
        path = write_csv(tmp_path / f"{seed}.csv", LOAN_COLUMNS, loan_rows(300, seed))
        found = fairbound("train", path, *LOANS, "--require", LIMIT, "--model", "linear", "--out", f"run{seed}")
        written = json.loads((tmp_path / f"run{seed}" / "summary.json").read_text("utf-8"))
        kept = {part: written[part]["limits"][0]["after"]["kept"] for part in ("training", "held_out")}
        lines = found.stdout.splitlines()
        (first,) = (place for place, line in enumerate(lines) if "All limits are kept on the training rows." in line)
        assert kept["training"]
        verdict = lines[first - 4]
        assert ("held-out rows" in verdict) == ("No better than a constant" not in verdict)
        assert found.code == (0 if kept["held_out"] else 1)
        if not kept["held_out"]:
            assert verdict.startswith("✗ The limit is not kept on the held-out rows (disparate_impact >= 0.8: ")
        codes.add(found.code)
    assert codes == {0, 1}


def test_words_for_labels_and_a_network(fairbound, tmp_path):
    rows = [(*row[:-1], ("no", "yes")[row[-1]]) for row in loan_rows(600)]
    path = write_csv(tmp_path / "loans.csv", LOAN_COLUMNS, rows)
    found = fairbound(
        "train", path, *LOANS, "--positive", "yes", "--model", "mlp:4", "--require", LIMIT, "--out", "run", "--json"
    )  # fmt: skip
    assert json.loads(found.stdout)["reproduction"]["model"] == "mlp:4"
    assert load_model("run").classes_.tolist() == ["no", "yes"]


def test_the_shipped_data_by_name(fairbound):
    found = fairbound("train", "law", "--require", "disparate_impact >= 0.9", "--out", "law", "--json")
    metrics = json.loads(found.stdout)
    assert found.code == (0 if metrics["kept"] else 1)
    assert metrics["training"]["limits"][0]["after"]["kept"]
    assert [metrics[part]["after"]["rows"] for part in ("training", "held_out")] == [16_638, 4_160]
    assert metrics["held_out"]["accuracy"]["after"]["value"] > metrics["held_out"]["accuracy"]["constant"]
    assert metrics["reproduction"]["data"]["name"] == "law"


@pytest.mark.slow
def test_small_groups_are_merged_when_asked_to(fairbound, tmp_path):
    rows = [(*row[:3], "other" if number < 5 else row[3], row[4]) for number, row in enumerate(loan_rows(600))]
    path = write_csv(tmp_path / "loans.csv", LOAN_COLUMNS, rows)
    refused = fairbound("train", path, *LOANS, "--require", LIMIT, "--out", "run")
    assert refused.code == 2
    assert "other" in refused.stderr.splitlines()[-1]
    assert not (tmp_path / "run").exists()
    left_out = fairbound("train", path, *LOANS, "--require", LIMIT, "--small-groups", "warn", "--out", "left", "--json")
    assert left_out.code == 0
    metrics = json.loads(left_out.stdout)
    assert any("left out of the limits" in note for note in metrics["notes"])
    for part in ("training", "held_out"):  # also where the small group is in one part only
        assert {group["group"] for group in metrics[part]["after"]["groups"]} == {"female", "male", None}
    merged = fairbound(
        "train", path, *LOANS, "--require", LIMIT, "--small-groups", "merge", "--min-group-size", 2, "--out", "m"
    )  # fmt: skip
    assert merged.code == 0


def test_a_missing_group_is_none_of_the_small_ones(fairbound, tmp_path):
    groups = {0: "rare", 1: "rare", 2: "", 3: "", 4: ""}
    rows = [(*row[:3], groups.get(number % 100, row[3]), row[4]) for number, row in enumerate(loan_rows(500))]
    path = write_csv(tmp_path / "loans.csv", LOAN_COLUMNS, rows)
    given = ["--require", "disparate_impact >= 0.3", "--small-groups", "merge", "--min-group-size", 30, "--json"]
    metrics = json.loads(fairbound("train", path, *LOANS, *given, "--out", "run").stdout)
    summary = json.loads((tmp_path / "run" / "summary.json").read_text(encoding="utf-8"))
    parts = [summary[name]["after"]["missing"]["sex"] for name in ("training", "held_out")]
    assert sum(parts) == 15
    assert metrics["kept"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--model", "oak"], "--model 'oak' must be auto, linear"),
        (["--model", "mlp:0"], "--model 'mlp:0'"),
        (["--loss", "hing"], "--loss 'hing'"),
        (["--class-weight", "even"], "--class-weight 'even'"),
        (["--regularizer", "demographic_parity * much"], "demographic_parity * much"),
        (["--surrogate", "sigmoid:wide", "--require", LIMIT], "--surrogate 'sigmoid:wide' must be the name"),
        (["--surrogate", "sigmod", "--require", LIMIT], "Did you mean 'sigmoid'?"),
        (["--surrogate", "sigmoid", "tanh", "max", "--require", LIMIT], "--surrogate has 3 surrogates for 1 limits."),
        (["--constraint-share", "2"], "--constraint-share 2.0 must be a number above 0 and at most 1"),
        (["--epochs", "-1"], "--epochs -1 must be auto or a whole number of at least 0"),
        (["--confidence", "0.95"], "one limit with a bound. Add it with --require."),
        (
            ["--confidence", "0.95", "--require", "covariance <= 0.1"],
            "covariance <= 0.1 cannot be certified",
        ),
        (["--confidence", "95", "--require", LIMIT], "--confidence 95.0 must be a number of at least 0.5"),
        (["--test", "1"], "--test 1.0 must be a share of the rows"),
        (["--small-groups", "drop"], "'drop' must be one of error, warn, merge."),
        (["--groups", "eech"], "Did you mean 'each'?"),
        (["--require", "disparate_impact <= 0.8"], "where larger is stricter"),
        (["--require", "disparate_impact(race) >= 0.8"], "race"),
    ],
)
def test_bad_options_are_one_sentence_and_write_nothing(fairbound, loans, tmp_path, arguments, words):
    refused = fairbound("train", loans, *LOANS, *arguments, "--out", "run", "--quiet")
    assert (refused.code, refused.stdout) == (2, "")
    assert words in refused.sentence
    assert {each.name for each in tmp_path.iterdir()} == {"loans.csv"}


def test_hidden_layers():
    assert hidden_layers("mlp:64x32") == hidden_layers("mlp:64,32") == (64, 32)


def _written(tmp_path) -> dict:
    return json.loads((tmp_path / "run" / "summary.json").read_text(encoding="utf-8"))


def test_an_interrupt_leaves_the_model_without_limits(fairbound, loans, monkeypatch, tmp_path):
    interrupt_when(monkeypatch, "Training without limits: free, step 3")
    found = fairbound("train", loans, *LOANS, "--require", LIMIT, "--out", "run")
    assert found.code == 130
    assert says(found.stderr.splitlines()[-1], "Interrupted: run has", "without limits", "the limits were not tried.")
    assert {each.name for each in (tmp_path / "run").iterdir()} == FILES
    for page in ("report.html", "model-card.md"):
        text = (tmp_path / "run" / page).read_text(encoding="utf-8")
        assert "Interrupted: the model is not finished" in text
        assert "the limits were not tried" in text
        assert "No limit was asked for" not in text


def test_an_interrupt_leaves_the_best_found_under_the_limits(fairbound, loans, monkeypatch, tmp_path):
    interrupt_when(monkeypatch, "Training under the limits: limits")
    found = fairbound("train", loans, *LOANS, "--require", LIMIT, "--out", "run", "--json")
    assert found.code == 130
    metrics = json.loads(found.stdout)
    assert metrics["interrupted"]
    assert metrics.items() >= {"command": "train", "out": "run", **_written(tmp_path)}.items()
    page = (tmp_path / "run" / "report.html").read_text(encoding="utf-8")
    verdict = page.index("Interrupted: ")
    assert verdict < page.index("The run was interrupted. This report is about the best model found so far")
    assert verdict < page.find("Do not use this model") or "Do not use this model" not in page
    state = "keeps" if metrics["kept"] else "does not keep"
    assert says(found.stderr, "Interrupted: run has the best model", f"{state} every limit")
    assert {each.name for each in (tmp_path / "run").iterdir()} == FILES


def test_an_interrupt_of_the_sequence_leaves_what_it_found(fairbound, loans, monkeypatch, tmp_path):
    interrupt_when(monkeypatch, "Training for the confidence: exact")
    found = fairbound("train", loans, *LOANS, "--require", LIMIT, "--confidence", 0.9, "--out", "run", "--json")
    assert found.code == 130
    metrics = json.loads(found.stdout)
    state = "keeps" if metrics["training"]["limits"][0]["after"]["kept"] else "does not keep"
    assert says(found.stderr, "Interrupted: run has the best model", f"{state} every limit")
    assert ("and is not certified" in found.stderr) == (metrics["fit"]["certificate"]["limits"][0]["verdict"] != "PASS")


def test_an_interrupt_while_writing_throws_nothing_away(fairbound, loans, monkeypatch, tmp_path):
    def interrupted(summary, folder):
        signal.raise_signal(signal.SIGINT)
        return write_report(summary, folder)

    monkeypatch.setattr("fairbound.report.write_report", interrupted)
    found = fairbound("train", loans, *LOANS, "--out", "run")
    assert found.code == 0
    assert says(found.stderr, "Writing what is finished", "Ctrl-C again")
    assert {each.name for each in (tmp_path / "run").iterdir()} == FILES


def test_a_second_interrupt_leaves_at_once(fairbound, loans, monkeypatch, tmp_path):
    interrupt_when(monkeypatch, "Training without limits: free", times=2)
    monkeypatch.setattr("fairbound.cli.output.Interruptible.asked", lambda self, row: False)
    found = fairbound("train", loans, *LOANS, "--out", "run")
    assert found.code == 130
    assert found.stderr.splitlines()[-1] == "fairbound: Interrupted; unfinished output was removed."
    assert {each.name for each in tmp_path.iterdir()} == {"loans.csv"}
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_words_too_many_to_tell_apart_are_noted(fairbound, tmp_path):
    rows = [(f"L{row[0]}", *row[1:]) for row in loan_rows(600)]
    path = write_csv(tmp_path / "loans.csv", LOAN_COLUMNS, rows)
    columns = ["--target", "approved", "--sensitive", "sex"]
    found = fairbound("train", path, *columns, "--out", "run")
    assert found.code == 0
    assert found.stdout.count("600 different values: a name or an identifier?") == 1
    assert found.stdout.count("--ignore 'id'") == 1
    ignored = fairbound("train", path, *columns, "--ignore", "id", "--out", "again")
    assert "different values" not in ignored.stdout


def test_with_several_columns_of_groups_each_line_names_its_own(fairbound, tmp_path):
    rows = [(*row, ("a", "b")[row[0] % 2]) for row in loan_rows(600)]
    path = write_csv(tmp_path / "loans.csv", (*LOAN_COLUMNS, "race"), rows)
    found = fairbound("train", path, *LOANS, "--sensitive", "race", "--out", "run")
    for name in ("sex: female", "sex: everyone", "race: a", "race: everyone"):
        assert f"\n  {name} " in found.stdout


def test_conflicting_limits_are_listed_everywhere(fairbound, loans, tmp_path):
    limits = ["selection_rate[male] <= 0.3", "disparate_impact >= 0.95", "selection_rate[female] >= 0.8"]
    requirements = [word for limit in limits for word in ("--require", limit)]
    found = fairbound("train", loans, *LOANS, *requirements, "--out", "run")
    assert found.code == 1
    run = tmp_path / "run"
    summary = json.loads((run / "summary.json").read_text(encoding="utf-8"))
    conflicts = summary["fit"]["conflicts"]
    assert len(conflicts) >= 2
    assert conflicts == list(load_model(str(run)).result_.conflicts)
    page = (run / "report.html").read_text(encoding="utf-8")
    flat = " ".join(found.stdout.split())
    for text in conflicts:
        assert text in flat
        assert html.escape(text, quote=False) in page
    for row in summary["fit"]["iterations"]:
        assert row["loss"] is not None
        assert (row["exact_violation"] is None) == (row["phase"] == "free")


@pytest.mark.parametrize("model", ["linear", "mlp:4"])
def test_the_summary_says_what_the_model_goes_by(fairbound, loans, tmp_path, model):
    fairbound("train", loans, *LOANS, "--model", model, "--out", "run", "--quiet")
    found = json.loads((tmp_path / "run" / "summary.json").read_text(encoding="utf-8"))["model"]
    assert found["kind"] == ("coefficients" if model == "linear" else "importances")
    assert found["inputs"][0]["name"] == "income"  # which the label was drawn from
    assert found["inputs"][0]["value"] > 10 * abs(found["inputs"][-1]["value"])
    sizes = [abs(each["value"]) for each in found["inputs"]]
    assert sizes == sorted(sizes, reverse=True)


def test_the_rates_of_several_classes_are_one_table(fairbound, tmp_path):
    rows = [(row[1], row[3], ("low", "mid", "of mid")[place % 3]) for place, row in enumerate(loan_rows(300))]
    write_csv(tmp_path / "grades.csv", ("income", "sex", "grade"), rows)
    given = ("--target", "grade", "--sensitive", "sex", "--multiclass", "--test", 0, "--out", "run")
    shown = fairbound("train", "grades.csv", *given, "--require", "demographic_parity <= 0.5").stdout
    table = shown[shown.index("Rates of each class (no limit -> with limits)") :].split("\n\n")[0].splitlines()
    assert len(table) == 2 + 3 * 3  # title, header; two groups and everyone, of three classes
    assert "selection rate of" not in shown
    pattern = r"  (\w+) +(low|mid|of mid)( +\d\.\d{4} -> \d\.\d{4}){3}"
    assert all(re.fullmatch(pattern, line) for line in table[2:]), table


def test_loss_class_weights_and_regularizers_reach_the_model(fairbound, tmp_path):
    path = write_csv(tmp_path / "loans.csv", LOAN_COLUMNS, loan_rows(300))
    given = ["--model", "linear", "--test", 0, "--json"]
    options = ([], ["--loss", "hinge"], ["--class-weight", "balanced"], ["--regularizer", "demographic_parity * 5"])
    coefficients = []
    for position, each in enumerate(options):
        assert fairbound("train", path, *LOANS, *given, *each, "--out", f"run{position}").code == 0
        coefficients.append(load(tmp_path / f"run{position}" / "model").coef_)
    for other in coefficients[1:]:
        assert abs(other - coefficients[0]).max() > 1e-3


def test_the_surrogate_of_each_limit_and_mini_batches_reach_the_model(fairbound, tmp_path):
    path = write_csv(tmp_path / "loans.csv", LOAN_COLUMNS, loan_rows(300))
    given = ["--model", "linear", "--test", 0, "--json", "--out", "run", "--require", LIMIT, "equal_opportunity <= 0.3"]
    stated = ["--surrogate", "sigmoid:20", "tanh", "--epochs", 4, "--batch-size", 64, "--constraint-share", 0.5]
    assert fairbound("train", path, *LOANS, *given, *stated).code == 0
    model = load(tmp_path / "run" / "model")
    assert [limit.surrogate for limit in model.constraints] == [Sigmoid(20.0), Tanh()]
    assert model.result_.solver == "stochastic"
    assert tuple(model.get_params()[f"training__{name}"] for name in ("epochs", "batch_size", "constraint_share")) == (
        4,
        64,
        0.5,
    )


def test_the_limits_are_locked_before_training(fairbound, tmp_path, monkeypatch):
    from fairbound.cli import studying
    from fairbound.studies.lock import content_hash

    seen = []
    run = studying.run_study

    def watch(study, *given):
        (folder,) = {path.parent for path in tmp_path.rglob("limits.lock")}
        seen.append((folder / "limits.lock").read_text(encoding="utf-8"))
        assert not (folder / "model").exists()
        run(study, *given)

    monkeypatch.setattr(studying, "run_study", watch)
    limit = "disparate_impact >= 0.85"
    out = tmp_path / "run"
    given = ["--model", "linear", "--require", limit, "--out", str(out), "--quiet"]
    assert fairbound("train", "law", *given).code == 0
    written = (out / "limits.lock").read_text(encoding="utf-8")
    assert seen == [written]
    lock = json.loads(written)
    assert lock["content"]["limits"] == [limit]
    assert lock["sha256"] == content_hash(lock["content"])
    reproduction = json.loads((out / "summary.json").read_text(encoding="utf-8"))["reproduction"]
    assert reproduction["lock"] == {"written": lock["written"], "sha256": lock["sha256"]}
    assert lock["written"] <= reproduction["created"]
    for page in ("report.html", "model-card.md"):
        assert lock["sha256"] in (out / page).read_text(encoding="utf-8")


def test_other_rows_or_limits_have_another_hash():
    from fairbound import load_dataset
    from fairbound.studies import Study, StudySettings

    law = load_dataset("law").take(range(500))
    law = replace(law, sensitive={"race": law.sensitive["race"]}, raw=law.table)

    def hash_of(data, limit, seed=0):
        return Study(data, StudySettings.build(limit, seed=seed, groups=Groups(small="warn"))).lock["sha256"]

    first = hash_of(law, "disparate_impact >= 0.8")
    assert hash_of(law, "disparate_impact >= 0.8") == first
    assert hash_of(law, "disparate_impact >= 0.7") != first
    assert hash_of(law, "disparate_impact >= 0.8", seed=1) != first
    assert hash_of(law.take(range(499, -1, -1)), "disparate_impact >= 0.8") != first


def test_a_model_of_no_use_has_code_1(fairbound, tmp_path):
    """Code 0 stood beside "Do not use this model"."""
    rng = np.random.default_rng(0)
    rows = [(rng.normal(), "ab"[place % 2], int(place % 10 > 0)) for place in range(400)]
    write_csv(tmp_path / "noise.csv", ("x", "side", "label"), rows)
    for further in ((), ("--require", "disparate_impact >= 0.5")):
        found = fairbound(
            "train", "noise.csv", "--target", "label", "--sensitive", "side", *further, "--out", f"run{len(further)}"
        )
        assert "Do not use this model." in found.stdout
        assert found.code == 1


def test_numbers_as_groups_are_noted_at_once(fairbound, tmp_path):
    rows = [(*row, 20 + row[0] % 50) for row in loan_rows(600)]
    write_csv(tmp_path / "loans.csv", (*LOAN_COLUMNS, "age"), rows)
    found = fairbound("train", "loans.csv", "--target", "approved", "--sensitive", "age", "--out", "run")
    note = "Column 'age' makes 50 groups, one for each number. To compare a few, give --bands age 36,53."
    assert found.stdout.index(note) < found.stdout.index("What was asked?")
    again = fairbound(
        "train", "loans.csv", "--target", "approved", "--sensitive", "age", "--bands", "age", "36,53", "--out", "in"
    )
    assert "makes 50 groups" not in again.stdout
    assert "\n  36 to below 53 " in again.stdout


def test_inputs_by_name_and_dates_as_numbers(fairbound, tmp_path):
    rows = [(*row, f"2024-0{1 + row[0] % 9}-15") for row in loan_rows(600)]
    write_csv(tmp_path / "loans.csv", (*LOAN_COLUMNS, "applied"), rows)
    given = ["--target", "approved", "--sensitive", "sex", "--inputs", "income", "applied", "--dates", "applied"]
    found = fairbound("train", "loans.csv", *given, "--out", "run")
    assert "Inputs: 2 numbers, 0 categories." in found.stdout
    assert json.loads((tmp_path / "run" / "summary.json").read_text())["reproduction"]["columns"] == [
        "income",
        "applied",
    ]
    assert fairbound("predict", "run", "loans.csv", "--out", "decided.csv").code == 0
    rows[1] = (*rows[1][:-1], "2024-02-31")
    write_csv(tmp_path / "wrong.csv", (*LOAN_COLUMNS, "applied"), rows)
    wrong = fairbound("predict", "run", "wrong.csv", "--out", "again.csv")
    assert wrong.code == 2
    assert "'2024-02-31' in row 2 of wrong.csv, and is read as dates" in wrong.stderr
    missing = fairbound("train", "loans.csv", *given[:4], "--inputs", "incom", "--out", "no")
    assert says(missing.stderr, "no column 'incom' (--inputs)", "Did you mean 'income'?")


def test_the_layout_of_propublicas_file_is_read_as_it_is(fairbound, tmp_path):
    """Two names occur twice, numbers stand for missing dates, and free text has commas."""
    rng = np.random.default_rng(1)
    header = "id,name,sex,age,race,decile_score,priors_count,c_jail_in,c_charge_desc,decile_score,priors_count,two_year"
    lines = [header]
    for place in range(400):
        score, priors, side = rng.integers(1, 11), rng.integers(0, 9), ("African-American", "Caucasian")[place % 2]
        again = int(rng.random() < score / 11)
        jail = "" if place % 7 == 0 else "2013-08-13 06:03:42"
        lines.append(
            f'{place},a b,M,{20 + place % 40},{side},{score},{priors},{jail},"Assault, more",{score},{priors},{again}'
        )
    (tmp_path / "compas.csv").write_text("\n".join(lines) + "\n")
    given = ["--target", "two_year", "--positive", "0", "--sensitive", "race"]
    found = fairbound("train", "compas.csv", *given, "--inputs", "age", "decile_score", "--out", "run")
    assert "Inputs: 2 numbers, 0 categories." in found.stdout
    score = ["--score", "decile_score", "--lower-is-better", "--threshold", "4"]
    audit = json.loads(fairbound("audit", "compas.csv", *given, *score, "--json").stdout)
    low = [line.split(",")[4] for line in lines[1:] if int(line.split(",")[5]) <= 4]
    selected = {each["group"]: each["decisions"]["0"] for each in audit["groups"] if not each["everyone"]}
    assert selected == {side: low.count(side) for side in ("African-American", "Caucasian")}
    wrong = fairbound("audit", "compas.csv", *given, "--prediction", "two_year", "--lower-is-better")
    assert "--lower-is-better is about scores" in wrong.sentence
