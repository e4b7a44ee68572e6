"""Judging clients: a driver that operates the client, and scripted peers that the client connects to."""
