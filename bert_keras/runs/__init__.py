"""Named recipes and the runs that follow them."""
