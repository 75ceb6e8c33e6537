"""Readers of fitted models: their parameters, from which engines are built. No estimator library is imported here.

`engines.choice` lists them; `recognition` says which class of which library a model is.
"""
