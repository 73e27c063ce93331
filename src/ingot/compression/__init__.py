"""Deep Compression of a model's weights. In: an ONNX model; out: the same model with encoded weights, and
sizes.

    layers_of(model)                  what there is to compress
    choose(...)                       densities, bits and gaps of every layer
    compress(model, ...)              pruned, shared, counted and written back

`driver` calls it for `ingot compress`. The method is that of Han, Mao and Dally, "Deep Compression"
(arXiv:1510.00149): magnitude pruning, weight sharing by one-dimensional k-means, relative indices, Huffman
codes.
"""
