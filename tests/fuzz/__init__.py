"""Random models: `grow` makes one from a seed, `levels` runs it at every level; `__main__` runs many. Hostile
files: `readers` says for whom, `mutate` makes them, `cage` and `guided` run them; `hunt` is the way in.

Where an oracle is known to err, and Ingot has been confirmed by wider arithmetic or the standard's text:

* onnxruntime 1.31 computes float64 as float32 in Shrink, GroupNormalization, HardSwish and the inverse
  DFT's 1/n; Gelu's tanh constant too. It gathers empty strings, counts no part in "" (StringSplit), forgets
  beta * C in a Gemm of nothing, cancels in an InstanceNormalization of one element, saturates sums of int32
  (they wrap), keeps a wrong axis in ReduceL1 of nothing, and does not round up MaxPool with auto_pad SAME
  and dilations. A Clip with one bound cuts infinity.
* onnx's reference evaluator 1.23 has an erf off by 2e-8 (Gelu), computes DeformConv of float64 and
  QuantizeLinear of float16 narrowly, pads and Triluates strings with the integer 0, inserts into a sequence
  one place early, takes a Shape whose end is before the first axis from the other end, gives a tree without
  leaves -FLT_MAX, and of two classes of an SVMClassifier the other one (libsvm and onnxruntime: the first
  where the decision is above 0).
* The standard leaves open: AffineGrid of one element with align_corners, Split into more parts than there
  are elements, a Compress whose condition is longer than the data (Ingot: ERR_INDEX).
"""
