"""Passes from region to region: formulas are folded, fused, reordered and laid out."""
