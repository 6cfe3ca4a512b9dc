"""Models, flat parameters, and errors for modules whose rows are not independent."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from fairbound.training.modules import assign, check_rows_are_independent, flatten, make_model, trainable


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def inputs(n: int = 20, wide: int = 3) -> Tensor:
    return torch.randn(n, wide, generator=generator(5))


class TestMakeModel:
    @pytest.mark.parametrize(
        ("n_labels", "hidden", "widths"),
        [(2, (), [(3, 1)]), (2, (8,), [(3, 8), (8, 1)]), (3, (5, 4), [(3, 5), (5, 4), (4, 3)]), (4, [], [(3, 4)])],
    )
    def test_has_the_layers_asked_for(self, n_labels, hidden, widths):
        model = make_model(3, n_labels, hidden)
        linear = [part for part in model if isinstance(part, nn.Linear)]
        assert [(layer.in_features, layer.out_features) for layer in linear] == widths
        activations = [part for part in model if not isinstance(part, nn.Linear)]
        assert len(activations) == len(widths) - 1
        assert all(isinstance(part, nn.LeakyReLU) and part.negative_slope == 0.01 for part in activations)
        assert model(inputs()).shape == (20, widths[-1][1])

    @pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
    def test_has_the_precision_asked_for(self, dtype):
        assert {parameter.dtype for parameter in make_model(3, hidden=(2,), dtype=dtype).parameters()} == {dtype}

    def test_weights_come_from_the_generator_alone(self):
        models = [make_model(3, hidden=(6,), generator=generator(seed)) for seed in (1, 1, 2)]
        first, same, other = (flatten(list(model.parameters())) for model in models)
        assert np.array_equal(first, same)
        assert not np.array_equal(first, other)

    @pytest.mark.parametrize("given", [True, False])
    def test_the_global_generator_is_neither_used_nor_moved(self, given):
        before = torch.get_rng_state()
        model = make_model(3, hidden=(6,), generator=generator() if given else None)
        assert np.array_equal(torch.get_rng_state(), before)
        torch.rand(1)
        again = make_model(3, hidden=(6,), generator=generator() if given else None)
        assert np.array_equal(flatten(list(model.parameters())), flatten(list(again.parameters())))

    def test_weights_are_uniform_within_the_reach_of_the_layer(self):
        weights = flatten(list(make_model(400, hidden=(50,), generator=generator()).parameters())[:2])
        assert weights.abs().max() <= 1 / 20
        # 20,050 draws: the mean lies within five standard errors, (1/20)/√3/√20,050 each, and the reach is used.
        assert weights.mean().abs() < 5 * 0.05 / 3**0.5 / 20_050**0.5
        assert weights.abs().max() > 0.0499

    def test_whole_numbers_of_numpy_are_whole_numbers(self):
        np = pytest.importorskip("numpy")
        assert make_model(np.int64(3), np.int32(2), [np.int64(4)])[0].out_features == 4

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            ({"n_inputs": 0}, r"n_inputs=0\b.*at least 1"),
            ({"n_inputs": 2.0}, "n_inputs=2.0: must be a whole number"),
            ({"n_inputs": True}, "n_inputs=True: must be a whole number"),
            ({"n_inputs": 3, "n_labels": 0}, r"n_labels=0\b.*whole number"),
            ({"n_inputs": 3, "hidden": (4, 0)}, r"hidden=\(4, 0\).*width"),
            ({"n_inputs": 3, "hidden": (4.5,)}, r"hidden=\(4.5,\)"),
            ({"n_inputs": 3, "hidden": (10**30,)}, r"more than 1,073,741,824 weights"),
            ({"n_inputs": 3, "hidden": (10**6, 10**6)}, r"more than 1,073,741,824 weights"),
            ({"n_inputs": 3, "hidden": 32}, r"hidden=32: .* for example \(32,\)"),
            ({"n_inputs": 3, "hidden": "32"}, "hidden='32'"),
        ],
    )
    def test_misuse_is_named(self, arguments, message):
        with pytest.raises(ValueError, match=message):
            make_model(**arguments)


class TestFlatView:
    def test_goes_there_and_back(self):
        model = make_model(3, hidden=(4,), generator=generator(), dtype=torch.float64)
        parameters = trainable(model)
        flat = flatten(parameters)
        assert flat.dtype == torch.float64
        assert flat.shape == (3 * 4 + 4 + 4 + 1,)
        assign(parameters, 2 * flat)
        assert np.array_equal(flatten(parameters), 2 * flat)
        assert np.array_equal(model[0].weight.detach(), 2 * flat[:12].reshape(4, 3))

    def test_is_a_copy(self):
        model = make_model(3, dtype=torch.float64)
        flat = flatten(trainable(model))
        with torch.no_grad():
            model[0].bias.add_(1)
        assert not np.array_equal(flat, flatten(trainable(model)))

    def test_single_precision_survives_the_way_through_double(self):
        model = make_model(3, hidden=(4,))
        before = [parameter.clone() for parameter in model.parameters()]
        assign(trainable(model), flatten(trainable(model)))
        assert all(torch.equal(old, new) for old, new in zip(before, model.parameters(), strict=True))

    def test_leaves_frozen_parameters_out(self):
        model = make_model(3, hidden=(4,))
        model[0].requires_grad_(False)
        assert flatten(trainable(model)).shape == (5,)

    @pytest.mark.parametrize("shape", [(3,), (5,), (2, 2)])
    def test_a_vector_of_the_wrong_size_is_refused(self, shape):
        with pytest.raises(ValueError, match=r"4 parameters.*shape \("):
            assign(trainable(make_model(3)), torch.zeros(shape))

    @pytest.mark.parametrize("module", [nn.ReLU(), make_model(3).requires_grad_(False)], ids=["none", "frozen"])
    def test_a_module_without_trainable_parameters_is_refused(self, module):
        with pytest.raises(ValueError, match="no parameter that requires a gradient"):
            trainable(module)


class Function(nn.Module):
    """A module made of one function of the inputs."""

    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x: Tensor) -> Tensor:
        return self.function(x)


def batch_norm(**options) -> nn.Sequential:
    return nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4, **options), nn.Linear(4, 1))


class TestRowsMustBeIndependent:
    @pytest.mark.parametrize(
        "module",
        [
            make_model(3),
            make_model(3, 3, (4,)),
            nn.Sequential(nn.Linear(3, 4), nn.LayerNorm(4), nn.Linear(4, 1)),
            batch_norm().eval(),
            nn.Sequential(nn.Linear(3, 4), nn.Dropout(0.5), nn.Linear(4, 1)).eval(),
            nn.Sequential(nn.Linear(3, 4), nn.Dropout(0.0), nn.Linear(4, 1)),
            Function(lambda x: x.sum(dim=1)),
        ],
        ids=["linear", "mlp", "layer norm", "batch norm eval", "dropout eval", "dropout of nothing", "one dimension"],
    )
    def test_independent_rows_pass(self, module):
        check_rows_are_independent(module, inputs())
        check_rows_are_independent(module, inputs(n=1))

    def test_batch_norm_in_training_mode_is_refused_by_name(self):
        with pytest.raises(ValueError, match=r"layer '1' \(BatchNorm1d\) normalises over the batch.*module\.eval\(\)"):
            check_rows_are_independent(batch_norm(), inputs())

    def test_batch_norm_without_running_statistics_is_refused_even_in_evaluation_mode(self):
        with pytest.raises(ValueError, match="BatchNorm1d"):
            check_rows_are_independent(batch_norm(track_running_stats=False).eval(), inputs())

    def test_refused_batch_norm_keeps_its_statistics(self):
        module = batch_norm()
        with pytest.raises(ValueError, match="BatchNorm1d"):
            check_rows_are_independent(module, inputs())
        assert np.array_equal(module[1].running_mean, torch.zeros(4))

    @pytest.mark.parametrize("p", [0.5, 1e-6])
    def test_dropout_in_training_mode_is_refused_by_name_however_rare(self, p):
        module = nn.Sequential(nn.Linear(3, 4), nn.Dropout(p), nn.Linear(4, 1))
        before = torch.get_rng_state()
        with pytest.raises(ValueError, match=r"layer '1' \(Dropout\) drops units at random.*module\.eval\(\)"):
            check_rows_are_independent(module, inputs())
        assert np.array_equal(torch.get_rng_state(), before)

    def test_chance_of_any_other_kind_is_refused(self):
        noisy = generator()
        with pytest.raises(ValueError, match="different outputs for the same rows"):
            check_rows_are_independent(Function(lambda x: x + torch.rand(x.shape, generator=noisy)), inputs())

    @pytest.mark.parametrize(
        "function",
        [
            lambda x: x[:, :1] - x[:, :1].mean(),
            lambda x: x[:, :1] / len(x),
            lambda x: torch.softmax(x[:, :1], dim=0),
            lambda x: x[:, :1].flip(0),
        ],
        ids=["subtracts the mean", "divides by the number", "softmax over rows", "reverses rows"],
    )
    def test_a_hand_written_module_that_mixes_rows_is_refused(self, function):
        with pytest.raises(ValueError, match="changes with the other rows"):
            check_rows_are_independent(Function(function), inputs())

    def test_rows_from_all_over_the_data_are_tried(self):
        # Rows come sorted by cell: the first ones are often alike, and on equal rows a shift of order shows nothing.
        X = torch.cat([torch.zeros(50, 3), inputs()])
        with pytest.raises(ValueError, match="changes with the other rows"):
            check_rows_are_independent(Function(lambda x: x[:, :1].flip(0)), X)

    @pytest.mark.parametrize(
        ("function", "message"),
        [
            (lambda x: x[:-1], r"shape \(7, 3\) for 8 rows"),
            (lambda x: x.mean(), r"shape \(\) for 8 rows"),
            (lambda x: x.T, r"shape \(3, 8\) for 8 rows"),
            (lambda x: x[:, 0].reshape(-1, 1).squeeze(), r"shape \(\) for 1 rows.*use squeeze\(-1\)"),
        ],
        ids=["a row less", "one number", "transposed", "squeezed to nothing"],
    )
    def test_a_module_with_the_wrong_number_of_rows_is_refused(self, function, message):
        with pytest.raises(ValueError, match=message):
            check_rows_are_independent(Function(function), inputs())

    @pytest.mark.parametrize("function", [lambda x: (x, x), lambda x: {"logits": x}], ids=["tuple", "dict"])
    def test_a_module_that_returns_no_tensor_is_refused(self, function):
        with pytest.raises(TypeError, match=r"returned (tuple|dict).*tensor of logits"):
            check_rows_are_independent(Function(function), inputs())
