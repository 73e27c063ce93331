"""From a stage to its loops: one module or room for each way of walking memory."""
