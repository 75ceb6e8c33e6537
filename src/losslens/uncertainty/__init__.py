"""Standard errors, intervals, bands and tests, computed from means alone.

Touches cells.
"""
