"""Runs the cells of the notebook that is given in a kernel of this Python, in the notebook's folder, and prints the text of its last cell."""

import sys
from pathlib import Path

import nbclient
import nbformat

path = Path(sys.argv[1])
notebook = nbformat.read(path, as_version=4)
nbformat.validate(notebook)
nbclient.NotebookClient(notebook, timeout=120, resources={"metadata": {"path": str(path.parent)}}).execute()
print("".join(output.text for output in notebook.cells[-1].outputs if output.output_type == "stream"))
