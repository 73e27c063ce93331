"""Bundles made into something larger: a kernel module."""
