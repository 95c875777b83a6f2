"""Signatures of each kind of model, with the sample requests that check its export."""
