"""A fitted estimator as one ONNX file, with its preprocessing inside.

What runs it elsewhere sums in another order, so its margins differ in the last digits, and its decisions agree wherever
the margin is not next to zero.
"""

from __future__ import annotations

import copy
import importlib
import os
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from fairbound.persistence.onnx_graph import OPSET, Graph, difference_of_two, is_known
from fairbound.preprocessing import CategoryColumn, NumberColumn, TableEncoder

OUTPUTS = ("label", "probabilities", "margin")


def export_onnx(estimator: Any, path: str | os.PathLike[str]) -> None:
    """Write a fitted estimator as ONNX; the inputs and outputs are those of `onnx_graph`."""
    onnx = _import("onnx")
    encoder = estimator.encoder_
    if encoder is not None and not isinstance(encoder, TableEncoder):
        raise ValueError(
            f"preprocessing={type(encoder).__name__}(...) is code that is not ours and cannot be written as ONNX: use "
            'preprocessing="auto" or None.'
        )
    model = _model(onnx, estimator, torch.float64)
    if not is_known(estimator.module_) and not _runs(model):
        warnings.warn(
            "onnxruntime lacks an operator of your network in double precision, so the network is written in single: "
            "decisions may differ where the margin is below about 1e-5.",
            UserWarning,
            stacklevel=3,
        )
        model = _model(onnx, estimator, torch.float32)
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    fresh = target.with_name(f".{target.name}.new")
    fresh.write_bytes(model.SerializeToString())
    fresh.replace(target)


def _model(onnx: Any, estimator: Any, dtype: torch.dtype) -> Any:
    graph = Graph(onnx.helper, onnx.numpy_helper)
    inputs, Z = _encode(onnx, graph, estimator)
    module, width = estimator.module_, len(estimator.encoded_names_)
    functions: list[Any] = []
    if is_known(module):
        z = Z
        for part in module:
            z = graph.layer(z, part)
    else:
        z, functions = _traced(onnx, graph, module, Z, width, dtype)
    classes = estimator.classes_.astype(object) if estimator.classes_.dtype.kind in "UO" else estimator.classes_
    if len(classes) == 2:
        with torch.no_grad():
            wide = module(torch.zeros(1, width, dtype=torch.float64)).numel() == 2
        z = difference_of_two(graph, z) if wide else graph.add("Reshape", z, graph.constant(np.array([-1, 1])))
        graph.decide_between_two(
            z, classes, estimator.threshold_, flipped=estimator._flipped, calibration=estimator.calibration_
        )
    else:
        graph.decide_among_several(z, classes, estimator.calibration_)
    return _checked(onnx, graph, inputs, classes, functions)


def _encode(onnx: Any, graph: Graph, estimator: Any) -> tuple[list[Any], str]:
    """Inputs of the graph, and the name of the encoded matrix."""
    encoder = estimator.encoder_
    double, text = onnx.TensorProto.DOUBLE, onnx.TensorProto.STRING
    declare = onnx.helper.make_tensor_value_info
    if encoder is None:
        return [declare("X", double, ["n", len(estimator.encoded_names_)])], "X"
    columns = encoder.columns_
    if all(isinstance(column, NumberColumn) for column in columns):
        return [declare("X", double, ["n", len(columns)])], graph.numbers("X", columns)
    taken = [column.name for column in columns if column.name in OUTPUTS]
    if taken:
        raise ValueError(
            f"X has a column {taken[0]!r}, which is the name of an output of the ONNX file: rename it, and train again."
        )
    inputs, parts = [], []
    for column in columns:
        words = isinstance(column, CategoryColumn) and not column.numeric
        inputs.append(declare(column.name, text if words else double, ["n", 1]))
        parts.append(
            graph.category(column.name, column)
            if isinstance(column, CategoryColumn)
            else graph.numbers(column.name, [column])
        )
    return inputs, graph.add("Concat", *parts, axis=1)


def _traced(
    onnx: Any, graph: Graph, module: nn.Module, Z: str, width: int, dtype: torch.dtype
) -> tuple[str, list[Any]]:
    """Add a module of any kind as torch's own exporter writes it; return its output, and its functions."""
    _import("onnxscript")
    copied = copy.deepcopy(module).to(dtype).eval()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # of torch about itself
        program = torch.onnx.export(
            copied,
            (torch.zeros(2, width, dtype=dtype),),
            dynamo=True,
            opset_version=OPSET,
            dynamic_shapes=({0: torch.export.Dim("rows")},),
            verbose=False,
        )
    assert program is not None
    core = onnx.compose.add_prefix(program.model_proto, "module.")
    start, end = core.graph.input[0].name, core.graph.output[0].name
    single = dtype is torch.float32
    given = graph.add("Cast", Z, to=onnx.TensorProto.FLOAT) if single else Z
    for node in core.graph.node:
        for position, name in enumerate(node.input):
            if name == start:
                node.input[position] = given
        graph.nodes.append(node)
    graph.constants += list(core.graph.initializer)
    return (graph.add("Cast", end, to=onnx.TensorProto.DOUBLE) if single else end), list(core.functions)


def _runs(model: Any) -> bool:
    """Tell whether onnxruntime can run a model; without it nothing is known, and nothing is changed."""
    try:
        runtime = importlib.import_module("onnxruntime")
    except ImportError:
        return True
    try:
        runtime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    except runtime.capi.onnxruntime_pybind11_state.NotImplemented:
        return False
    return True


def _checked(onnx: Any, graph: Graph, inputs: list[Any], classes: Any, functions: list[Any]) -> Any:
    declare, double = onnx.helper.make_tensor_value_info, onnx.TensorProto.DOUBLE
    kind = onnx.TensorProto.STRING if classes.dtype.kind == "O" else onnx.helper.np_dtype_to_tensor_dtype(classes.dtype)
    outputs = [
        declare(OUTPUTS[0], kind, ["n"]),
        declare(OUTPUTS[1], double, ["n", len(classes)]),
        declare(OUTPUTS[2], double, ["n"] if len(classes) == 2 else ["n", len(classes)]),
    ]
    made = onnx.helper.make_graph(graph.nodes, "fairbound", inputs, outputs, graph.constants)
    opsets = [onnx.helper.make_opsetid("", OPSET)]
    opsets += [onnx.helper.make_opsetid(domain, 1) for domain in {function.domain for function in functions}]
    model = onnx.helper.make_model(made, opset_imports=opsets, functions=functions, producer_name="fairbound")
    model.ir_version = 10  # of the operators used; newer ones are refused by older runtimes
    onnx.checker.check_model(model)
    return model


def _import(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise ImportError(f'to_onnx needs {name}: pip install "fairbound[onnx]".') from error
