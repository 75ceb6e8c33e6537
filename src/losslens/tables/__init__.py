"""Rows and columns: tables, columns, features, checks of y and weights, and data in files.

Only this package uses frame libraries. Uses losses and text, nothing above it.
"""
