"""Fits whose rows are in partitions: what they cost beside the same fits in memory."""
