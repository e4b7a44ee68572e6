"""Isolation: does anything that a caller does not see move what it is answered?"""
