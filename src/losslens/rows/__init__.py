"""Questions about rows: where a feature matters more, which rows are alike, which look wrong, which extrapolate.

Imports results and tables. Never predicts: everything comes from results that are already computed.
"""
