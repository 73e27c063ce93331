"""The records of the targets, one table for each family of processors."""
