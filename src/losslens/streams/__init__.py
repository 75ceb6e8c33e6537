"""Explanations of data larger than memory: what is a sum over rows is summed part by part.

A first pass counts the values of each feature, or the bins that the model can tell apart; a second one evaluates the
rows of each part against these counts. The answer is that over all pairs, and no pass holds more than one part.
"""
