"""Turns lines into sentences, words and ids, in a store on disk."""
