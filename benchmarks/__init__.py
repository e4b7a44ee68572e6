"""Measurements of the default ranking, run from the root of the repository; not part of the distribution."""
