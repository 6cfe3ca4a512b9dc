"""Write a fitted classifier as one ONNX file, with its preprocessing, its base and a description of the model.

A runtime may add numbers in another order, so its margins may differ in the last digits.  Its decisions are the same
unless the margin is almost zero.
"""

from __future__ import annotations

import copy
import importlib
import json
import math
import os
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from fairbound._errors import import_extra
from fairbound._files import begins_with, resolved, write_file
from fairbound._version import __version__
from fairbound.estimator import (
    CategoryColumn,
    NumberColumn,
    TableEncoder,
    as_model,
    model_inputs,
)
from fairbound.persistence.onnx_bases import add_base
from fairbound.persistence.onnx_graph import OPSET, Graph, difference_of_two, is_known
from fairbound.persistence.parts import plain

OUTPUTS = {
    "label": "the decision, one of the classes",
    "probabilities": "one column for each class, in the order of the metadata entry 'classes'",
    "margin": "the decision function: for two classes the distance of the logit of the last class from the threshold, "
    "for several classes the logit of each",
}
BASE_SCORE = "base_score"
SCORE = "the score of the base: the logit of the last class, or one logit for each of several classes"
NUMBER, CODE, WORD = "a number; NaN if missing", "a code; NaN if missing", "text; empty if missing"

PRODUCER = "fairbound"
_OURS = b"\x12" + bytes([len(PRODUCER)]) + PRODUCER.encode()
"""Field 2 of the file, the producer, which is among its first bytes."""


def export_onnx(estimator: Any, path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
    """Write a fitted classifier as ONNX, with the inputs and outputs of `onnx_graph`."""
    if estimator._scores is not None and estimator._scores.posteriors:
        raise ValueError(
            "A model whose correction has estimates of the group as inputs cannot be written as ONNX: train with "
            'Base(classifier, correction="columns").'
        )
    onnx = import_extra("onnx", "to_onnx needs", "onnx")
    target = resolved(Path(path))
    if target.is_dir():
        raise IsADirectoryError(f"{target} is a folder: give the name of a file, such as model.onnx.")
    if target.exists() and not overwrite and not begins_with(target, _OURS, within=64):
        raise FileExistsError(
            f"{target} exists and was not written by to_onnx: give another name, or overwrite=True to replace it."
        )
    encoder = estimator.encoder_
    if encoder is not None and not isinstance(encoder, TableEncoder):
        raise ValueError(
            f"encoder={type(encoder).__name__}(...) is a transformer of your own, which cannot be written as "
            'ONNX: use encoder="auto" or None.'
        )
    model = _model(onnx, estimator, np.float64)
    if not _is_built_in(estimator.model_) and not _runs(model):
        warnings.warn(
            "onnxruntime lacks an operator of your network in double precision, so the network is written in single: "
            "decisions may differ where the margin is below about 1e-5.",
            UserWarning,
            stacklevel=3,
        )
        model = _model(onnx, estimator, np.float32)
    write_file(target, model.SerializeToString())


def _model(onnx: Any, estimator: Any, dtype: DTypeLike) -> Any:
    graph = Graph(onnx.helper, onnx.numpy_helper)
    inputs, Z = _encode(onnx, graph, estimator)
    model, width = estimator.model_, len(estimator.encoded_names_)
    functions: list[Any] = []
    scores = None if estimator._scores is None else _scores(onnx, graph, estimator, inputs, Z)
    if hasattr(model, "correction") and _is_built_in(model) and scores is not None:
        z = graph.add("Add", graph.layer(scores, model.score), graph.layers(Z, model.correction))
    elif is_known(model):
        z = graph.layers(Z if scores is None else graph.add("Concat", Z, scores, axis=1), model)
    else:
        Z = Z if scores is None else graph.add("Concat", Z, scores, axis=1)
        z, functions = _traced(onnx, graph, model, Z, width, dtype)
    classes = estimator.classes_.astype(object) if estimator.classes_.dtype.kind in "UO" else estimator.classes_
    if len(classes) == 2:
        wide = as_model(model).outputs(model_inputs(model, np.zeros((1, width)))).size == 2
        z = difference_of_two(graph, z) if wide else graph.add("Reshape", z, graph.constant(np.array([-1, 1])))
        graph.decide_between_two(
            z, classes, estimator.threshold_, flipped=estimator._flipped, calibration=estimator.calibration_
        )
    else:
        graph.decide_among_several(z, classes, estimator.calibration_)
    made = _assembled(onnx, graph, inputs, classes, functions)
    onnx.helper.set_model_props(made, metadata(estimator))
    made.doc_string = _description(estimator)
    onnx.checker.check_model(made)
    return made


def _is_built_in(model: Any) -> bool:
    """Return whether `Graph` can write every layer; otherwise torch writes the module."""
    return is_known(getattr(model, "correction", model))


def _encode(onnx: Any, graph: Graph, estimator: Any) -> tuple[list[Any], str]:
    """Add the inputs and the encoder; return the inputs and the name of the encoded matrix."""
    encoder = estimator.encoder_
    double, text = onnx.TensorProto.DOUBLE, onnx.TensorProto.STRING
    declare = onnx.helper.make_tensor_value_info
    if encoder is None:
        width = len(estimator.encoded_names_) - (0 if estimator._scores is None else estimator._scores.n_others)
        return [declare("X", double, ["n", width], "numbers; none may be missing")], "X"
    columns = encoder.columns_
    if all(isinstance(column, NumberColumn) for column in columns):
        said = "one column for each of the metadata entry 'inputs', in that order: numbers; NaN if missing"
        return [declare("X", double, ["n", len(columns)], said)], graph.numbers("X", columns)
    taken = [column.name for column in columns if column.name in OUTPUTS]
    if taken:
        raise ValueError(
            f"X has a column {taken[0]!r}, which is the name of an output of the ONNX file: rename it, and train again."
        )
    inputs, parts = [], []
    for column in columns:
        words = isinstance(column, CategoryColumn) and not column.numeric
        said = WORD if words else CODE if isinstance(column, CategoryColumn) else NUMBER
        inputs.append(declare(column.name, text if words else double, ["n", 1], said))
        parts.append(
            graph.category(column.name, column)
            if isinstance(column, CategoryColumn)
            else graph.numbers(column.name, [column])
        )
    return inputs, graph.add("Concat", *parts, axis=1)


def _scores(onnx: Any, graph: Graph, estimator: Any, inputs: list[Any], Z: str) -> str:
    """Add the scores of the base, or an input for them; return their name."""
    scores = estimator._scores
    if scores.fitted is None:
        if BASE_SCORE in [each.name for each in inputs]:
            raise ValueError(
                f"X has a column {BASE_SCORE!r}, which is the name of an input of the ONNX file: rename it."
            )
        inputs.append(
            onnx.helper.make_tensor_value_info(BASE_SCORE, onnx.TensorProto.DOUBLE, ["n", scores.n_others], SCORE)
        )
        return graph.add("Neg", BASE_SCORE) if scores.flipped else BASE_SCORE
    return add_base(graph, scores.fitted, [each.name for each in inputs], Z)


def _traced(onnx: Any, graph: Graph, module: Any, Z: str, width: int, dtype: DTypeLike) -> tuple[str, list[Any]]:
    """Add any module through torch's exporter; return the name of its output and its functions."""
    import_extra("onnxscript", "to_onnx needs", "onnx")
    import torch

    single = dtype is np.float32
    copied = copy.deepcopy(module).to(torch.float32 if single else torch.float64).eval()
    example = torch.from_numpy(model_inputs(module, np.zeros((2, width))))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # torch warns about its own internals
        program = torch.onnx.export(
            copied,
            (example.to(next(copied.parameters()).dtype) if example.is_floating_point() else example,),
            dynamo=True,
            opset_version=OPSET,
            dynamic_shapes=({0: torch.export.Dim("rows")},),
            verbose=False,
        )
    assert program is not None
    core = onnx.compose.add_prefix(program.model_proto, "module.")
    start, end = core.graph.input[0].name, core.graph.output[0].name
    given = graph.add("Cast", Z, to=onnx.TensorProto.FLOAT) if single else Z
    if not example.is_floating_point():
        given = graph.add("Cast", Z, to=onnx.TensorProto.INT64)
    for node in core.graph.node:
        for position, name in enumerate(node.input):
            if name == start:
                node.input[position] = given
        graph.nodes.append(node)
    graph.constants += list(core.graph.initializer)
    return (graph.add("Cast", end, to=onnx.TensorProto.DOUBLE) if single else end), list(core.functions)


def _runs(model: Any) -> bool:
    """Return whether onnxruntime can run a model; True if onnxruntime is not installed."""
    try:
        runtime = importlib.import_module("onnxruntime")
    except ImportError:
        return True
    try:
        runtime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    except runtime.capi.onnxruntime_pybind11_state.NotImplemented:
        return False
    return True


def metadata(estimator: Any) -> dict[str, str]:
    """Return the metadata of the file: text unchanged, everything else as JSON."""
    result, encoder = estimator.result_, estimator.encoder_
    columns = estimator.encoded_names_ if encoder is None else [column.name for column in encoder.columns_]
    certificate = result.certificate
    found = {
        "fairbound_version": __version__,
        "inputs": list(columns),
        "outputs": OUTPUTS,
        "classes": plain(estimator.classes_, "label"),
        "positive_class": plain(estimator.pos_label_, "label"),
        "threshold": estimator.threshold_,
        "limits": [
            {"limit": each.limit, "reached": _finite(each.reached), "kept": each.kept} for each in result.limits
        ],
        "measured_on": f"the {result.rows} training rows",
        "accuracy": _finite(result.accuracy),
        "gain_over_best_constant": _finite(result.gain),
        "status": result.status.value,
        "certificate": None if certificate is None else {"verdict": certificate.verdict.value, "claim": result.claim},
    }
    return {name: value if isinstance(value, str) else json.dumps(value) for name, value in found.items()}


def _description(estimator: Any) -> str:
    """Return a description of the model in a few sentences."""
    result = estimator.result_
    kept = [
        f"{each.limit} (reached {each.reached:.4f}, {'kept' if each.kept else 'NOT kept'})" for each in result.limits
    ]
    limits = f"Limits on the training rows: {'; '.join(kept)}." if kept else "It was trained without limits."
    return (
        f"A classifier trained by fairbound {__version__} that decides among {len(estimator.classes_)} classes. "
        f"{limits} The metadata entries name its inputs, outputs and classes."
    )


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _assembled(onnx: Any, graph: Graph, inputs: list[Any], classes: Any, functions: list[Any]) -> Any:
    declare, double = onnx.helper.make_tensor_value_info, onnx.TensorProto.DOUBLE
    kind = onnx.TensorProto.STRING if classes.dtype.kind == "O" else onnx.helper.np_dtype_to_tensor_dtype(classes.dtype)
    shapes: tuple[tuple[Any, list[Any]], ...] = (
        (kind, ["n"]),
        (double, ["n", len(classes)]),
        (double, ["n"] if len(classes) == 2 else ["n", len(classes)]),
    )
    outputs = [declare(name, *shape, said) for (name, said), shape in zip(OUTPUTS.items(), shapes, strict=True)]
    made = onnx.helper.make_graph(graph.nodes, PRODUCER, inputs, outputs, graph.constants)
    opsets = [onnx.helper.make_opsetid("", OPSET), onnx.helper.make_opsetid("ai.onnx.ml", 3)]
    opsets += [onnx.helper.make_opsetid(domain, 1) for domain in {function.domain for function in functions}]
    model = onnx.helper.make_model(
        made, opset_imports=opsets, functions=functions, producer_name=PRODUCER, producer_version=__version__
    )
    model.ir_version = 10  # the least version that has all operators used; older runtimes reject newer ones
    return model
