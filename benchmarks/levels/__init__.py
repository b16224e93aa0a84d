"""Searches with a coarse model beside the fine one, and without."""
