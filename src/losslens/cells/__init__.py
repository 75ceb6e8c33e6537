"""The matrix of cells (row i with the values of donor k) and its means: pure NumPy.

Imports donors and tables.
"""
