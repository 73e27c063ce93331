"""Reductions along rows of memory: softmax, normalisation, the best few of a row."""
