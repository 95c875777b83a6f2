"""`python -m bert_keras.cli` is `bert-keras`."""

import sys

from bert_keras.cli import main

sys.exit(main())
