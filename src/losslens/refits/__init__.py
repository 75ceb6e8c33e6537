"""Importances from many fits: folds, permuted targets, features left out.

Touches passes.
"""
