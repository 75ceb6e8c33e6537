"""Rows and columns: frames, columns, features, checks of y and weights, and sources in files.

The only room that knows frame libraries. Touches losses and text, nothing above it.
"""
