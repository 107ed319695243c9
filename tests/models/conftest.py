"""The laws' assertions say what they compared, as those of a test file do."""

import pytest

pytest.register_assert_rewrite("model_laws")
