"""Models on disk: a folder with a JSON file that contains no code, and ONNX."""

from fairbound.persistence.folder import ModelFileError
from fairbound.persistence.onnx_export import export_onnx
from fairbound.persistence.state import load, save_estimator

__all__ = ["ModelFileError", "export_onnx", "load", "save_estimator"]
