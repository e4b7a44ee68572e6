"""Judging clients: a driver that does what it is told, and a scripted peer that the client speaks to."""
