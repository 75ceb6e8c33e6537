"""Standard errors, intervals, bands and tests, computed from means alone.

Imports cells and the rooms below.
"""
