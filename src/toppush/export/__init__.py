"""Models for other programs: ONNX, and linear weights as JSON."""
