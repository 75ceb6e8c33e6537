"""Importance of learners instead of fitted models: folds, permuted targets, features left out, out-of-bag trees.

Touches passes.
"""
