"""Probes: small programs that prove the levels can carry what the generators and passes to come will ask."""
