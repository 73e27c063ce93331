"""Convolutions by Winograd's fast algorithms: what they serve, how they are cut, how they are written."""
