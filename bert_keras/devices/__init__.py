"""How one step runs on one device or many, and on a batch whole or in parts."""
