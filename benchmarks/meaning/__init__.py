"""Fits the map of query vectors of the small English model to requests in people's own words."""
