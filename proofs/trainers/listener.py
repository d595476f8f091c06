"""What trainers say as warnings, whichever way they say it."""

import logging
import os
import tempfile
import warnings

os.environ.update(HF_HUB_OFFLINE="1", TRANSFORMERS_OFFLINE="1", HF_DATASETS_OFFLINE="1", HF_HOME=tempfile.mkdtemp())
os.environ.update(TOKENIZERS_PARALLELISM="false", HF_DATASETS_DISABLE_PROGRESS_BARS="1", TQDM_DISABLE="1")


def listen(*names):
    """A list that fills with the warnings of these loggers and of Python."""
    said = []

    class Listener(logging.Handler):
        def emit(self, record):
            said.append(f"{record.name}: {record.getMessage()}")

    for name in names:
        logging.getLogger(name).addHandler(Listener(logging.WARNING))
    warnings.simplefilter("always")
    warnings.showwarning = lambda message, category, file, line, *_: said.append(f"{os.path.basename(file)}: {message}")
    return said
