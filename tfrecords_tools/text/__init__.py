"""Lines in; sentences, words and ids out, in a store on disk."""
