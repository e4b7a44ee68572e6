"""Judges clients: a driver operates the client, which connects to scripted peers."""
