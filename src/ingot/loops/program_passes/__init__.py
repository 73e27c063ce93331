"""Passes from program to program: kernels are shared, loops run in parallel, pauses and states come in."""
