"""Questions about rows: where a feature matters more, where the model is worst, which rows are alike, which look wrong.

Imports results, which call it inside methods, and tables. Never predicts: everything comes from what is computed.
"""
