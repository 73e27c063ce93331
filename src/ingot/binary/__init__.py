"""What stands in an object file: sections, symbols, functions, and what the object says of itself."""
