"""The conformance suite is shipped code, so pytest has to be told to explain its assertions."""

import pytest

pytest.register_assert_rewrite("turnlog.testing.conformance")
