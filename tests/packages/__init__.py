"""Packages, built and run by the tools of their ecosystems (`make packages`), and what they must hold."""
