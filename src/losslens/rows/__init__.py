"""Questions about rows: regions, clusters, suspicious rows, extrapolation.

Imports results and tables.
"""
