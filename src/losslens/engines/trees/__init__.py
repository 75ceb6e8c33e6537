"""Tree ensembles, exactly: curves, coalitions of features, Shapley values of predictions, and pairs of columns.

Works on ensembles as `readers` hands them over, whatever library fitted them.
"""
