"""Every Python block of README.md and docs/*.md is a test. The blocks of a page share their names, top to bottom."""

import torch
from sybil import Sybil
from sybil.parsers.markdown import PythonCodeBlockParser

# Tests are small. Threads gain nothing there, and waiting for a busy core costs more than the work.
torch.set_num_threads(1)

pytest_collect_file = Sybil(
    parsers=[PythonCodeBlockParser()], patterns=["README.md", "docs/*.md", "docs/strategies/*.md"]
).pytest()
