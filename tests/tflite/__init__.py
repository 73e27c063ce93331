"""TFLite models, written here and imported."""
