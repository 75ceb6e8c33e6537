"""Shapley values: the game, the ways to compute its values, and random walks. Distributes performance among features.

Uses passes and engines.
"""
