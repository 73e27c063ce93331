"""The corpus on every target: compiled, audited, and run where something can run it (`make targets`)."""
