"""Certificates of the risk on new data."""
