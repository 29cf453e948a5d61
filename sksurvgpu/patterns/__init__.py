"""Plans of rows: times and groups become integers, once for all fits."""
