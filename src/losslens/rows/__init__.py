"""Questions about rows: regions, clusters, suspicious rows, extrapolation.

Touches results and tables.
"""
