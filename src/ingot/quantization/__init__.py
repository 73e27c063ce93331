"""Post-training quantisation: statistics (`profile`) and decisions (`plan`) are data, one module writes.

In: a float ONNX model and a profile of what its tensors hold. Out: an ordinary QDQ model, which any runtime
runs and which `passes/integer_layers.py` turns into integer layers. Called by the driver.
"""
