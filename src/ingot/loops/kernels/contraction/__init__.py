"""Sums of products, of floats and of bytes: roles of axes, products, packing, register tiles."""
