"""Regular expressions in RE2's syntax, compiled to a table over bytes that a Scan walks.

In: a pattern. Out: an `Automaton`. `syntax` reads the pattern, `characters` knows sets of characters,
`automaton` makes the table. Called by `ops/text/strings.py`.
"""
