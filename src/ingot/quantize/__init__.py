"""Quantisation: what values a float model's tensors take (`profile`), and what becomes of them.

In: a float model in ONNX's terms, and representative data. Out: profiles as YAML files.
"""
