"""The warnings of trainers, in whichever way they are given."""

import logging
import os
import tempfile
import warnings

os.environ.update(HF_HUB_OFFLINE="1", TRANSFORMERS_OFFLINE="1", HF_DATASETS_OFFLINE="1", HF_HOME=tempfile.mkdtemp())
os.environ.update(TOKENIZERS_PARALLELISM="false", HF_DATASETS_DISABLE_PROGRESS_BARS="1", TQDM_DISABLE="1")


def listen(*names):
    """A list that fills with the warnings of these loggers and of Python."""
    caught = []

    class Listener(logging.Handler):
        def emit(self, record):
            caught.append(f"{record.name}: {record.getMessage()}")

    for name in names:
        logging.getLogger(name).addHandler(Listener(logging.WARNING))
    warnings.simplefilter("always")
    warnings.showwarning = lambda message, category, file, line, *_: caught.append(f"{os.path.basename(file)}: {message}")
    return caught
