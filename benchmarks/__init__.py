"""Measurements of the default ranking and of the gateway, run from the root of the repository.

They are no part of the distribution.
"""
