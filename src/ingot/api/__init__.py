"""The verbs of Ingot, as Python functions: what the command line calls, and what `import ingot` gives.

In: models, bundles and typed options. Out: results that are plain data and show themselves. A verb raises
InputError in the words of the command line; `words` puts them in Python's for who calls `ingot.verb`.
"""
