"""Windows that slide over images: depthwise, pooling, and convolutions of few channels."""
