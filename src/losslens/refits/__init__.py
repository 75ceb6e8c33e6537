"""Importances from many fits: folds, permuted targets, features left out, trees with out-of-bag rows.

Touches passes.
"""
