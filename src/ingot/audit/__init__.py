"""What an object does to those who link it: instructions, the stack they need, fixups, and rules for them.

The compiler cannot import this package: it reads objects that are made, whoever made them.
"""
