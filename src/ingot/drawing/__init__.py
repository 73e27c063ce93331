"""Pictures in SVG: shapes and text that stay in their place; charts of curves, bars and histograms."""
