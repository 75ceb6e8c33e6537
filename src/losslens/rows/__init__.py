"""Questions about rows: regions, clusters, suspicious rows, extrapolation."""
