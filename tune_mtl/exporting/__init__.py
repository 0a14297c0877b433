"""A trained network for programs that do not have this package: as MLflow model, as torch archive, as ONNX."""
