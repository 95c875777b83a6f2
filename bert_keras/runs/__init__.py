"""Defines recipes and the runs that use them."""
