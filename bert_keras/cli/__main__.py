"""Runs `bert-keras` as `python -m bert_keras.cli`."""

import sys

from bert_keras.cli import main

sys.exit(main())
