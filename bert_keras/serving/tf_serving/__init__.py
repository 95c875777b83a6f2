"""Configuration files of TF Serving for an exported model, and the measurement behind them."""
