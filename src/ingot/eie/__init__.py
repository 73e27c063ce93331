"""EIE, the accelerator that computes on compressed weights (Han et al., arXiv:1602.01528).

Encoder, functional model, cycle-exact simulator, energy and area. Called by `ingot eie`; docs/eie.md tells
what is modelled.
"""
