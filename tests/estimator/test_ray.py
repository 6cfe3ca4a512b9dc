"""The example of docs/large_data.md under Ray Train: two workers share a fit.  Needs ray[train], which is no extra."""

from __future__ import annotations

import numpy as np
import pytest

from fairbound import ConstrainedClassifier, load_dataset
from fairbound.data import Dataset

pytestmark = pytest.mark.slow


def rows_of(rank: int, count: int) -> Dataset:
    law = load_dataset("law").take(range(3000))
    own = np.arange(rank, len(law.y), count)
    return law.take(own)


def train_function(config: dict[str, str]) -> None:
    import torch.distributed as dist

    rows = rows_of(dist.get_rank(), dist.get_world_size())
    clf = ConstrainedClassifier("disparate_impact >= 0.9", hidden=(4,))
    clf.fit(rows.frame(), rows.y, sensitive_features=rows.sensitive["race"])
    if dist.get_rank() == 0:
        clf.save(config["out"])


def test_two_workers_of_ray_train_share_a_fit(tmp_path):
    ray = pytest.importorskip("ray")
    pytest.importorskip("ray.train.torch")
    from ray.train import RunConfig, ScalingConfig
    from ray.train.torch import TorchConfig, TorchTrainer

    from fairbound import load

    ray.init(num_cpus=3, include_dashboard=False, log_to_driver=False)
    try:
        TorchTrainer(
            train_function,
            train_loop_config={"out": str(tmp_path / "model")},
            scaling_config=ScalingConfig(num_workers=2),
            torch_config=TorchConfig(backend="gloo"),
            run_config=RunConfig(storage_path=str(tmp_path / "ray")),
        ).fit()
    finally:
        ray.shutdown()
    found, everyone = load(tmp_path / "model"), rows_of(0, 1)
    selected = found.predict(everyone.frame()) == found.pos_label_
    groups = np.asarray(everyone.groups("race"))
    rates = [selected[groups == group].mean() for group in np.unique(groups)]
    assert min(rates) / max(rates) >= 0.9 - 1e-12
