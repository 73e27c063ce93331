"""Random models: `grow` makes one from a seed, `levels` runs it at every level, `__main__` is `make fuzz`."""
