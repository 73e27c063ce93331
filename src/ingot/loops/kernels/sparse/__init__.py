"""Products with sparse and coded matrices, computed on as they are stored."""
