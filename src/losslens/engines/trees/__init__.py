"""Exact curves of tree ensembles."""
