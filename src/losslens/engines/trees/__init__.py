"""Tree ensembles, exactly: curves, Shapley values of predictions, pairs of columns and of rows.

Works on ensembles as `readers` hands them over, whatever library fitted them.
"""
