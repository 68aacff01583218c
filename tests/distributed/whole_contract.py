"""All that tests/core demands of a surrogate, of one whose rows lie on workers: minutes, so it is run by itself.

python -m pytest tests/distributed/whole_contract.py
"""

from tests.core.test_engine import *  # noqa: F403
from tests.core.test_explanation import *  # noqa: F403
from tests.core.test_state import *  # noqa: F403
from tests.core.test_surrogate import *  # noqa: F403
from tests.core.test_understudy import *  # noqa: F403
from tests.distributed.test_contract import every_storage

__all__ = ["every_storage"]
