"""What is in an object file: ELF, disassembly, the stack it needs, and what it does to those who link it.

The compiler does not know this package: it reads objects that are made, whoever made them.
"""
