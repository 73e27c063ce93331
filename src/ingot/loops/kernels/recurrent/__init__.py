"""Recurrent cells: a product of the state, and the gates behind it, in one kernel."""
