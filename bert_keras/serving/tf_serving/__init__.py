"""What TF Serving is started with: measured settings and the files that hold them."""
