"""Builds the signatures of each model class and the sample requests that verify its export."""
